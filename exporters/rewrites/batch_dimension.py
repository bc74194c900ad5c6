"""Leaves the batch dimension open: shapes that were written for the batch of training are fixed.

slim's nets reshape their predictions to the shape they had in training, batch included. With
another batch that fails, or goes wrong without a word; so every shape is followed from the inputs
with a batch size that nothing else in the graph has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from checkpoints.errors import GraphError, counted, listed
from checkpoints.messages import DataType, NodeDef, TensorShapeProto
from exporters.graph import Graph
from exporters.names import TensorName, is_control, reference_to
from exporters.rewrites.changes import Changes
from exporters.rewrites.draft import Draft
from exporters.shapes.inference import ShapeInference
from exporters.shapes.sizes import Shape, product, written_shape

BATCH = 1009
"""The batch size shapes are followed with: a prime that nets do not have in their layers."""


def free_batch_dimension(draft: Draft, inputs: Mapping[TensorName, Shape | None]) -> Draft:
    """Makes the graph take any batch.

    A Reshape is changed where its sizes begin with the batch of training and the rest fits what
    it reshapes: the first size becomes -1. What else depends on the batch of training is refused.

    Args:
      draft: a pruned graph whose inputs are placeholders.
      inputs: placeholder -> the shape its tensor had in training, the batch first; None where
        that is not known.

    Raises:
      GraphError: nodes fit the batch of training alone, or the batch does not reach an output.
    """
    given = {
        tensor: (BATCH, *shape[1:])
        for tensor, shape in inputs.items()
        if shape  # scalars have none
    }
    batches = {shape[0] for shape in inputs.values() if shape and shape[0] is not None}
    if not given:
        return draft
    changes = draft.changes()
    repair = _Repair(draft.graph, changes, batches)
    inference = ShapeInference(draft.graph, given, repair.reshape)
    problems = [
        f"{node} ({draft.graph.nodes[node].op}) {text}" for node, text in inference.problems
    ]
    problems += _cut_batches(inference, batches)
    problems += _lost_batches(draft, inference)
    if problems:
        written = [re.sub(rf"\b{BATCH}\b", "batch", text) for text in problems]
        raise GraphError(
            f"{draft.graph.label} fits one batch size only:\n{listed(written)}",
            expected="a graph whose first dimension may be of any size",
            received=f"a batch of {', '.join(map(str, sorted(batches)))}" if batches else None,
            next_step="Name a tensor that holds a whole batch as the input (--inputs NAME), or give"
            " the whole shape of the input: --inputs NAME=32x224x224x3",
        )
    changed = draft.changed(changes)
    if repair.repaired:
        first = ", ".join(repair.repaired[:3])
        line = (
            f"{counted(len(repair.repaired), 'shape')} held the batch of training, {first} first."
        )
        changed = replace(changed, said=(*changed.said, line), is_faithful=False)
    return _with_open_outputs(changed, inference)


def _with_open_outputs(draft: Draft, inference: ShapeInference) -> Draft:
    """Lets the nodes of outputs say the shapes that they have now; files leave this attribute out."""
    changes = draft.changes()
    for name in dict.fromkeys(tensor.node for tensor in draft.outputs):
        node = draft.graph.nodes[name]
        if "_output_shapes" not in node.attr:
            continue
        changed = NodeDef()
        changed.CopyFrom(node)
        for index, written in enumerate(changed.attr["_output_shapes"].list.shape):
            found = inference.shapes.get(TensorName(name, index))
            if found is None and len(written.dim):
                written.dim[0].size = -1
            elif found is not None:
                sizes = [
                    -1 if size is None or (size and size % BATCH == 0) else size for size in found
                ]
                written.CopyFrom(
                    TensorShapeProto(dim=[TensorShapeProto.Dim(size=s) for s in sizes])
                )
        changes.put(changed)
    return draft.changed(changes)


class _Repair:
    """Opens the first size of Reshapes that hold the batch of training."""

    def __init__(self, graph: Graph, changes: Changes, batches: set[int]) -> None:
        self._graph = graph
        self._changes = changes
        self._batches = batches
        self.repaired: list[str] = []

    def reshape(self, node: NodeDef, shape: Shape, sizes: Sequence[int]) -> Shape | None:
        """The shape behind a Reshape once it is repaired; None where it cannot be."""
        if shape[0] != BATCH or not sizes or sizes[0] not in self._batches:
            return None
        rest = product(shape[1:])
        if rest is None:
            return None
        opened = list(sizes[1:])
        if -1 in opened:
            known = math.prod(size for size in opened if size != -1)
            if known == 0 or rest % known:
                return None
            opened[opened.index(-1)] = rest // known
        if math.prod(opened) != rest:
            return None
        self._open(node, [-1, *opened])
        return (BATCH, *opened)

    def _open(self, node: NodeDef, sizes: list[int]) -> None:
        constant = NodeDef(name=self._changes.new_name(f"{node.name}/open_shape"), op="Const")
        constant.attr["dtype"].type = DataType.DT_INT32
        tensor = constant.attr["value"].tensor
        tensor.dtype = DataType.DT_INT32
        tensor.tensor_shape.dim.add(size=len(sizes))
        tensor.tensor_content = np.array(sizes, "<i4").tobytes()
        self._changes.put(constant)
        changed = NodeDef()
        changed.CopyFrom(node)
        control = [reference for reference in node.input if is_control(reference)]
        source = self._graph.data_inputs(node.name)[0]
        changed.input[:] = [reference_to(source), constant.name, *control]
        changed.attr["Tshape"].type = DataType.DT_INT32
        self._changes.put(changed)
        self.repaired.append(node.name)


def _cut_batches(inference: ShapeInference, batches: set[int]) -> list[str]:
    """Slices that take as many rows as the batch of training had: of a larger batch some are lost."""
    problems = []
    for name, node in inference.graph.nodes.items():
        if node.op not in ("Slice", "StridedSlice"):
            continue
        sliced = inference.graph.data_inputs(name)[:1]
        before = inference.shapes.get(sliced[0]) if sliced else None
        after = inference.shapes.get(TensorName(name))
        if before and after and before[0] == BATCH and len(after) == len(before):
            size = after[0]
            if size != BATCH and size in batches:
                problems.append(f"{name} ({node.op}) keeps {size} rows of the batch")
    return problems


def _lost_batches(draft: Draft, inference: ShapeInference) -> list[str]:
    """Outputs whose rows are not those of the batch."""
    return [
        f"{tensor} has the shape {written_shape(shape)}, whose first dimension is not the batch"
        for tensor, shape in ((tensor, inference.shapes.get(tensor)) for tensor in draft.outputs)
        if shape and shape[0] is not None and shape[0] % BATCH
    ]
