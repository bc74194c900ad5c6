"""The outputs of ops by name, as references inside functions spell them: `node:output:index`.

A MetaGraphDef brings the definitions of its ops; a GraphDef does not. For it the ops that have
more than one output argument stand here; every other op has one, whatever it is called.

Source:
  TensorFlow's op registry.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from checkpoints.errors import GraphError
from checkpoints.messages import NodeDef
from exporters.graph import Graph


class OutputArgument(NamedTuple):
    """One output argument of an op.

    Attributes:
      name: what references call it.
      counted_by: the attribute that says how many tensors it is; empty where it is one.
    """

    name: str
    counted_by: str = ""


def output_index(graph: Graph, node: NodeDef, argument: str, index: int) -> int:
    """The place among a node's outputs of what a reference calls `node:argument:index`.

    Args:
      graph: brings definitions of ops and functions, as far as it has any.
      node: a node of a function.
      argument: the name of the output argument.
      index: which of its tensors.

    Raises:
      GraphError: the op has no such output.
    """
    place = index
    for output in _outputs(graph, node.op) or [OutputArgument(argument)]:
        if output.name == argument:
            return place
        place += _count(node, output.counted_by)
    raise GraphError(
        f"{graph.label}: {node.name} ({node.op}) has no output {argument!r}, which is read.",
        expected=", ".join(output.name for output in _outputs(graph, node.op)),
        received=argument,
    )


def _outputs(graph: Graph, op: str) -> list[OutputArgument]:
    definition = graph.op_definitions.get(op)
    if definition is None and op in graph.functions:
        definition = graph.functions[op].signature
    if definition is None:
        return _table().get(op, [])
    return [
        OutputArgument(output.name, output.number_attr or output.type_list_attr)
        for output in definition.output_arg
    ]


def _count(node: NodeDef, attribute: str) -> int:
    if not attribute:
        return 1
    if attribute not in node.attr:
        return 0
    value: Any = node.attr[attribute]
    return len(value.list.type) if value.HasField("list") else int(value.i)


@functools.cache
def _table() -> dict[str, list[OutputArgument]]:
    table = {}
    for line in _SEVERAL_OUTPUTS.strip().splitlines():
        op, *outputs = line.split()
        table[op] = [OutputArgument(*output.split("*")) for output in outputs]
    return table


_SEVERAL_OUTPUTS = """
AllCandidateSampler sampled_candidates true_expected_count sampled_expected_count
AnonymousIteratorV2 handle deleter
AnonymousMemoryCache handle deleter
AnonymousMultiDeviceIterator handle deleter
AnonymousRandomSeedGenerator handle deleter
AnonymousSeedGenerator handle deleter
ApproxTopK values indices
BarrierTakeMany indices keys values*component_types
Batch batched_tensors*T batch_index id
BatchNormWithGlobalNormalizationGrad dx dm dv db dg
BatchSelfAdjointEigV2 e v
BatchSvd s u v
BlockLSTM i cs f o ci co h
BlockLSTMGrad x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad
BlockLSTMGradV2 x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad
BlockLSTMV2 i cs f o ci co h
BroadcastGradientArgs r0 r1
CSRSparseMatrixComponents row_ptrs col_inds values
CSRSparseMatrixToSparseTensor indices values dense_shape
CTCBeamSearchDecoder decoded_indices*top_paths decoded_values*top_paths decoded_shape*top_paths log_probability
CTCGreedyDecoder decoded_indices decoded_values decoded_shape log_probability
CTCLoss loss gradient
CTCLossV2 loss gradient
CombinedNonMaxSuppression nmsed_boxes nmsed_scores nmsed_classes valid_detections
ComputeAccidentalHits indices ids weights
CudnnRNN output output_h output_c reserve_space
CudnnRNNBackprop input_backprop input_h_backprop input_c_backprop params_backprop
CudnnRNNBackpropV2 input_backprop input_h_backprop input_c_backprop params_backprop
CudnnRNNBackpropV3 input_backprop input_h_backprop input_c_backprop params_backprop
CudnnRNNParamsToCanonical weights*num_params biases*num_params
CudnnRNNParamsToCanonicalV2 weights*num_params_weights biases*num_params_biases
CudnnRNNV2 output output_h output_c reserve_space host_reserved
CudnnRNNV3 output output_h output_c reserve_space host_reserved
CustomAggregator output min max histogram
DecodeProtoV2 sizes values*output_types
DecodeWav audio sample_rate
DenseCountSparseOutput output_indices output_values output_dense_shape
DenseToDenseSetOperation result_indices result_values result_shape
DenseToSparseSetOperation result_indices result_values result_shape
DeserializeManySparse sparse_indices sparse_values sparse_shape
DeserializeSparse sparse_indices sparse_values sparse_shape
Eig e v
FakeQuantWithMinMaxVarsGradient backprops_wrt_input backprop_wrt_min backprop_wrt_max
FakeQuantWithMinMaxVarsPerChannelGradient backprops_wrt_input backprop_wrt_min backprop_wrt_max
FixedUnigramCandidateSampler sampled_candidates true_expected_count sampled_expected_count
FractionalAvgPool output row_pooling_sequence col_pooling_sequence
FractionalMaxPool output row_pooling_sequence col_pooling_sequence
FusedBatchNorm y batch_mean batch_variance reserve_space_1 reserve_space_2
FusedBatchNormGrad x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4
FusedBatchNormGradV2 x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4
FusedBatchNormGradV3 x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5
FusedBatchNormV2 y batch_mean batch_variance reserve_space_1 reserve_space_2
FusedBatchNormV3 y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3
GRUBlockCell r u c h
GRUBlockCellGrad d_x d_h_prev d_c_bar d_r_bar_u_bar
GenerateBoundingBoxProposals rois roi_probabilities
GenerateVocabRemapping remapping num_present
IsotonicRegression output segments
LSTMBlockCell i cs f o ci co h
LSTMBlockCellGrad cs_prev_grad dicfo wci_grad wcf_grad wco_grad
LearnedUnigramCandidateSampler sampled_candidates true_expected_count sampled_expected_count
ListDiff out idx
LogMatrixDeterminant sign log_abs_determinant
LogUniformCandidateSampler sampled_candidates true_expected_count sampled_expected_count
LookupTableExport keys values
LookupTableExportV2 keys values
Lu lu p
MapUnstageNoKey key values*dtypes
MaxPoolWithArgmax output argmax
Merge output value_index
NearestNeighbors nearest_center_indices nearest_center_distances
NonMaxSuppressionV4 selected_indices valid_outputs
NonMaxSuppressionV5 selected_indices selected_scores valid_outputs
OrderedMapUnstageNoKey key values*dtypes
ParseExample sparse_indices*Nsparse sparse_values*sparse_types sparse_shapes*Nsparse dense_values*Tdense
ParseExampleV2 sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense ragged_values*ragged_value_types ragged_row_splits*ragged_split_types
ParseSequenceExample context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types feature_list_dense_lengths*Nfeature_list_dense
ParseSequenceExampleV2 context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense context_ragged_values*context_ragged_value_types context_ragged_row_splits*context_ragged_split_types feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types feature_list_dense_lengths*Nfeature_list_dense feature_list_ragged_values*feature_list_ragged_value_types feature_list_ragged_outer_splits*feature_list_ragged_split_types feature_list_ragged_inner_splits*feature_list_ragged_split_types
ParseSingleExample sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense
ParseSingleSequenceExample context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types
Qr q r
QuantizeAndDequantizeV4Grad input_backprop input_min_backprop input_max_backprop
QuantizeDownAndShrinkRange output output_min output_max
QuantizeV2 output output_min output_max
RaggedCountSparseOutput output_indices output_values output_dense_shape
RaggedCross output_values output_row_splits
RaggedFillEmptyRows output_value_rowids output_values empty_row_indicator reverse_index_map
RaggedFillEmptyRowsGrad d_values d_default_value
RaggedGather output_nested_splits*OUTPUT_RAGGED_RANK output_dense_values
RaggedRange rt_nested_splits rt_dense_values
RaggedTensorFromVariant output_nested_splits*output_ragged_rank output_dense_values
RaggedTensorToSparse sparse_indices sparse_values sparse_dense_shape
ReaderRead key value
ReaderReadUpTo keys values
ReaderReadUpToV2 keys values
ReaderReadV2 key value
RefMerge output value_index
RefSwitch output_false output_true
RequantizationRange output_min output_max
RequantizationRangePerChannel output_min output_max
Requantize output output_min output_max
RequantizePerChannel output output_min output_max
SampleDistortedBoundingBox begin size bboxes
SampleDistortedBoundingBoxV2 begin size bboxes
SelfAdjointEigV2 e v
Skipgram vocab_word vocab_freq words_per_epoch current_epoch total_words_processed examples labels
SoftmaxCrossEntropyWithLogits loss backprop
SparseAccumulatorTakeGradient indices values shape
SparseAdd sum_indices sum_values sum_shape
SparseAddGrad a_val_grad b_val_grad
SparseConcat output_indices output_values output_shape
SparseCountSparseOutput output_indices output_values output_dense_shape
SparseCross output_indices output_values output_shape
SparseCrossHashed output_indices output_values output_shape
SparseCrossV2 output_indices output_values output_shape
SparseFillEmptyRows output_indices output_values empty_row_indicator reverse_index_map
SparseFillEmptyRowsGrad d_values d_default_value
SparseReduceMaxSparse output_indices output_values output_shape
SparseReduceSumSparse output_indices output_values output_shape
SparseReorder output_indices output_values
SparseReshape output_indices output_shape
SparseSegmentMeanGradV2 output sorted_unique_indices
SparseSegmentSqrtNGradV2 output sorted_unique_indices
SparseSegmentSumGradV2 output sorted_unique_indices
SparseSlice output_indices output_values output_shape
SparseSoftmaxCrossEntropyWithLogits loss backprop
SparseSparseMaximum output_indices output_values
SparseSparseMinimum output_indices output_values
SparseSplit output_indices*num_split output_values*num_split output_shape*num_split
SparseToSparseSetOperation result_indices result_values result_shape
SplitDedupData integer_tensor float_tensor
StatelessRandomGetKeyCounter key counter
StatelessRandomGetKeyCounterAlg key counter alg
StatelessSampleDistortedBoundingBox begin size bboxes
StringNGrams ngrams ngrams_splits
StringSplit indices values shape
StringSplitV2 indices values shape
Svd s u v
Switch output_false output_true
TakeManySparseFromTensorsMap sparse_indices sparse_values sparse_shape
TensorArrayConcat value lengths
TensorArrayConcatV2 value lengths
TensorArrayConcatV3 value lengths
TensorArrayGradV3 grad_handle flow_out
TensorArrayGradWithShape grad_handle flow_out
TensorArrayV3 handle flow
TensorListConcat tensor lengths
TensorListConcatV2 tensor lengths
TensorListPopBack output_handle tensor
ThreadUnsafeUnigramCandidateSampler sampled_candidates true_expected_count sampled_expected_count
TopK values indices
TopKUnique topk topk_indices
TopKV2 values indices
TopKWithUnique topk topk_indices
UnicodeDecode row_splits char_values
UnicodeDecodeWithOffsets row_splits char_values char_to_byte_starts
UniformCandidateSampler sampled_candidates true_expected_count sampled_expected_count
Unique y idx
UniqueV2 y idx
UniqueWithCounts y idx count
UniqueWithCountsV2 y idx count
"""
"""One op a line; `name*attribute` for an argument of as many tensors as the attribute says."""
