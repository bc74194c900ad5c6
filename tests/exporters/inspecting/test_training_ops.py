import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.freezing import prepare
from exporters.graph import read_graph
from exporters.inspecting.training_ops import refuse_training_ops, training_ops
from exporters.names import TensorName
from exporters.rewrites.prune import prune

FLOAT = np.dtype("float32")


def found(builder) -> dict[str, str]:
    return {entry.name: entry.reason for entry in training_ops(builder.graph)}


def test_a_graph_for_evaluation_has_none(dense_net):
    dense_net.add("FusedBatchNormV3", "norm", "x", is_training=False)
    assert found(dense_net) == {}
    assert refuse_training_ops(dense_net.graph, keep_training=False) == []


def test_batch_norm_in_training_mode(builder):
    builder.add("FusedBatchNormV3", "on", "x", is_training=True)
    builder.add("FusedBatchNorm", "by_default", "x")
    builder.add("FusedBatchNormV2", "off", "x", is_training=False)
    assert list(found(builder)) == ["on", "by_default"]
    assert "the batch at hand" in found(builder)["on"]


def test_moments_over_the_batch(builder):
    builder.const("over_batch", np.array([0, 1, 2], np.int32))
    builder.const("over_picture", np.array([1, 2], np.int32))
    builder.add("SquaredDifference", "squares", "x", "mean", T=FLOAT)
    builder.add("Mean", "variance", "squares", "over_batch", T=FLOAT)
    builder.add("Mean", "instance_variance", "squares", "over_picture", T=FLOAT)
    builder.add("Mean", "plain", "x", "over_batch", T=FLOAT)
    assert list(found(builder)) == ["variance"]


@pytest.mark.parametrize("resource", [False, True])
def test_weights_that_are_standardised_are_no_batch(builder, resource):
    axes = builder.const("axes", np.array([0], np.int32))
    weights = builder.variable("w", np.ones((4, 3), np.float32), resource)
    builder.add("Mean", "mean", weights, axes, T=FLOAT)
    builder.add("SquaredDifference", "squares", weights, "mean", T=FLOAT)
    builder.add("Mean", "variance", "squares", axes, T=FLOAT)
    builder.add("FusedBatchNormV3", "norm", weights, "axes", "axes", is_training=True)
    assert found(builder) == {}
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 3))
    builder.add("SquaredDifference", "of_both", "x", "mean", T=FLOAT)
    builder.add("Mean", "batch_variance", "of_both", axes, T=FLOAT)
    assert list(found(builder)) == ["batch_variance"]
    frozen = prepare(builder.graph, builder.values, outputs=["variance", "norm"])
    assert frozen.said == ()


@pytest.mark.parametrize(
    ("op", "word"),
    [
        ("RandomUniform", "random"),
        ("TruncatedNormal", "random"),
        ("StatelessRandomUniformV2", "random"),
        ("IteratorGetNext", "tf.data"),
        ("OneShotIterator", "tf.data"),
        ("QueueDequeueManyV2", "queue"),
        ("QueueDequeueUpTo", "queue"),
        ("RandomShuffleQueueV2", "queue"),
        ("ReaderReadV2", "queue"),
        ("TFRecordReaderV2", "queue"),
        ("HashTableV2", "lookup table"),
        ("MutableHashTable", "lookup table"),
        ("AssignAdd", "writes a variable"),
        ("ResourceApplyAdam", "writes a variable"),
    ],
)
def test_ops_that_belong_to_training(builder, op, word):
    builder.add(op, "node")
    assert word in found(builder)["node"]


@pytest.mark.parametrize(
    "op", ["UniformQuantize", "Conv2D", "RandomIndexShuffle", "ScatterNd", "L2Normalize", "Mean"]
)
def test_ops_that_do_not(builder, op):
    builder.add(op, "node")
    assert found(builder) == {}


def test_functions_are_looked_into(builder):
    function = builder.graph_def.library.function.add()
    function.signature.name = "body"
    function.node_def.add(name="noise", op="RandomStandardNormal")
    assert list(found(builder)) == ["body/noise"]


def test_they_are_refused_by_reason_and_kept_on_request(builder):
    for index in range(5):
        builder.add("FusedBatchNorm", f"norm{index}")
    builder.add("RandomUniform", "dropout/random_uniform")
    graph = builder.graph
    with pytest.raises(GraphError, match="in training mode") as caught:
        refuse_training_ops(graph, keep_training=False)
    assert (
        "norm0 (FusedBatchNorm), norm1 (FusedBatchNorm), norm2 (FusedBatchNorm) and 2 more:"
        in caught.value.message
    )
    assert "dropout/random_uniform (RandomUniform): draws random" in caught.value.message
    assert "--keep-training" in caught.value.next_step
    assert len(refuse_training_ops(graph, keep_training=True)) == 6


@pytest.mark.tensorflow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_slims_layers(save_graph, fused, training):
    from finetune.slim import load_slim, quietly

    slim = load_slim()

    @quietly
    def build(tf):
        x = tf.compat.v1.placeholder(tf.float32, [None, 6, 6, 1], name="x")
        norm = {"is_training": training, "fused": fused}
        net = slim.conv2d(
            x, 2, 3, normalizer_fn=slim.batch_norm, normalizer_params=norm, scope="body"
        )
        net = slim.dropout(slim.flatten(net), is_training=training)
        tf.nn.softmax(slim.fully_connected(net, 3, activation_fn=None, scope="head"), name="probs")

    saved = save_graph(build, {}, [])
    pruned = prune(read_graph(f"{saved.prefix}.meta"), [TensorName("probs")]).graph
    reasons = " ".join(entry.reason for entry in training_ops(pruned))
    assert ("batch" in reasons) is training
    assert ("random" in reasons) is training


def test_what_a_loop_does_is_told_with_the_loop(builder):
    function = builder.graph_def.library.function.add()
    function.signature.name = "while_body_1"
    function.node_def.add(name="noise", op="RandomUniform")
    builder.add("While", "rnn/while", "x")
    builder.graph_def.node[-1].attr["body"].func.name = "while_body_1"
    builder.add("Placeholder", "x", dtype=FLOAT, shape=())
    with pytest.raises(GraphError, match=r"RandomUniform\) inside rnn/while \(While\): draws"):
        refuse_training_ops(builder.graph, keep_training=False)
