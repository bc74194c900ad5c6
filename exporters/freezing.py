"""Freezing: the part of a graph that its outputs need, with variables turned into constants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checkpoints.errors import UnsupportedError, counted
from checkpoints.messages import NodeDef
from checkpoints.progress import SILENT, Progress
from checkpoints.statistics import is_average, statistics_of, untouched_batch_norms
from exporters.graph import MAX_MESSAGE_BYTES, Graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs
from exporters.inspecting.training_ops import refuse_training_ops
from exporters.metadata import Metadata, metadata_node
from exporters.names import METADATA_NODE, TensorName, is_control, node_of
from exporters.ops import DROPPED_ATTRIBUTES, HANDLE_PASSES, HANDLE_READS, VALUE_OPS
from exporters.partitions import with_parts
from exporters.rewrites.devices import clear_placement
from exporters.rewrites.inference import Wishes, to_inference
from exporters.rewrites.placeholders import parse_input
from exporters.rewrites.prune import prune
from exporters.rewrites.read_before_calls import read_before_calls
from exporters.rewrites.settings import open_settings, parse_settings
from exporters.saved_models.tables import refuse_tables
from exporters.values import Array, Values
from exporters.variables import (
    FrozenVariable,
    fit_variables,
    follow_handles,
    refuse_unfrozen_uses,
)

_NODE_OVERHEAD_BYTES = 64

_HOLDERS = {
    "pb": "a .pb can hold",
    "pbtxt": "a .pb or .pbtxt can hold",
    "saved-model": "the graph of a SavedModel can hold",
    "onnx": "the graph that an .onnx is made from can hold",
    "tflite": "the graph that a .tflite is made from can hold",
}


@dataclass(frozen=True, eq=False)
class FrozenGraph:
    """A graph that is ready to be written: pruned, checked against its variables, not yet copied.

    Attributes:
      source: the graph it was made from: the whole, or the cut one where inputs were cut.
      graph: the pruned graph, variables still in it.
      outputs: the tensors it was pruned to.
      inputs: the tensors to feed.
      variables: node -> the variable that becomes a constant there.
      handles: node that has a variable's handle as its output -> the variable's node.
      values: where the variables' values come from.
      metadata: what is written into it, or None.
      said: what was done, a line each.
      rewritten: whether nodes other than variables were changed.
      reference: the graph to run beside the written one; left out, `graph`. It is the source
        itself where the source gives the same answers with `settings` fed.
      runs_source: whether that is the source itself, not what it was rewritten to.
      settings: what placeholders of the reference are fed that `graph` does not have any more.
      batches: the batch sizes that inputs had in training, which a run is not to be made with.
    """

    source: Graph
    graph: Graph
    outputs: tuple[TensorName, ...]
    inputs: tuple[TensorName, ...]
    variables: dict[str, FrozenVariable]
    handles: dict[str, str]
    values: Values
    metadata: Metadata | None
    said: tuple[str, ...]
    rewritten: bool = False
    reference: Graph | None = None
    runs_source: bool = True
    settings: Mapping[TensorName, Array] = field(default_factory=dict)
    batches: frozenset[int] = frozenset()

    @property
    def parameters(self) -> int:
        """How many numbers its variables hold."""
        return sum(math.prod(variable.header.shape) for variable in self.variables.values())

    @property
    def num_nodes(self) -> int:
        """How many nodes the file has."""
        names = self.graph.nodes.keys() - {METADATA_NODE}
        return len(names) + (self.metadata is not None)

    def nodes(self) -> Iterator[NodeDef | FrozenVariable]:
        """The nodes of the frozen graph, in order; a variable stands for its constant."""
        for name, node in self.graph.nodes.items():
            if name in self.variables:
                yield self.variables[name]
            elif name != METADATA_NODE:
                yield self._frozen_node(node)
        if self.metadata is not None:
            yield metadata_node(self.metadata)

    def _frozen_node(self, node: NodeDef) -> NodeDef:
        frozen = NodeDef()
        frozen.CopyFrom(node)
        clear_placement(frozen)
        for attribute in DROPPED_ATTRIBUTES:
            frozen.attr.pop(attribute, None)
        frozen.op = VALUE_OPS.get(node.op, node.op)
        variable = self.handles.get(_first_input(node))
        if variable is not None:
            _read_value(frozen, self.variables[variable].header.dtype.number)
        return frozen


def prepare(
    graph: Graph,
    values: Values,
    *,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = (),
    metadata: Metadata | None = None,
    settings: Iterable[str] | Mapping[str, Any] = (),
    drop_checks: bool = False,
    keep_training: bool = False,
    keep_variables: bool = False,
    raw: bool = False,
    form: str = "pb",
    progress: Progress = SILENT,
) -> FrozenGraph:
    """Prunes a graph to its outputs, puts it into inference mode and fits the variables to it.

    No values are read yet.

    Args:
      graph: the whole graph, variables in it.
      values: the variables by name, as in checkpoints.open(...).
      outputs: names of nodes or tensors; left out, those of the metadata or signature, else a
        guess.
      inputs: tensors to feed, as NAME or NAME=?x224x224x3; the graph is cut there and a
        placeholder put in where there is none. Left out, the placeholders that the outputs
        need, and the one tensor that they take from an input pipeline.
      metadata: what is to be written into it.
      settings: placeholders that become constants, as NAME=VALUE.
      drop_checks: whether assertions, numeric checks and prints are taken out.
      keep_training: whether nodes that belong to training are left as they are.
      keep_variables: whether the graph is to be written without the values of its variables.
      form: what is made of it, for messages.
      raw: whether variables get their own values where the graph's Saver takes their averages.
      progress: told what was chosen and cut.

    Raises:
      GraphError: an output is not there, variables are absent or of another dtype or shape, the
        graph is in training mode, or a variable is used in a way that has no constant.
      UnsupportedError: the frozen graph would be larger than a .pb can be.
    """
    outputs_found = resolve_outputs(graph, outputs, metadata, progress)
    needed = prune(graph, outputs_found)
    said = []
    if needed.cut_edges:
        said.append(f"{len(needed.cut_edges)} control edges to updates and summaries were cut.")
    wishes = Wishes(
        inputs=tuple(map(parse_input, inputs)),
        settings=parse_settings(settings),
        drops_checks=drop_checks,
        keeps_training=keep_training,
    )
    inference = to_inference(graph, needed, outputs_found, wishes)
    pruned = inference.graph
    said += inference.said
    further = [
        tensor for tensor in placeholders(pruned, metadata) if tensor not in inference.inputs
    ]
    if further and inference.inputs:
        said.append(f"To be fed too: {', '.join(map(str, further))}.")
    refuse_tables(graph, pruned)
    kept = refuse_training_ops(
        pruned, keep_training, inference.problems, open_settings(pruned, pruned.nodes)
    )
    said += (f"Read as it is stored: {line}." for line in inference.stale)
    if kept:
        said.append(f"{len(kept)} nodes of training were kept, {kept[0].name} first.")
    lifted = read_before_calls(pruned)
    reference = inference.reference
    if lifted.calls:
        reference = pruned if reference is None else reference
        pruned = lifted.graph
        calls = counted(len(lifted.calls), "call")
        said.append(f"{calls} of functions take values of variables where they took handles.")
    handles = follow_handles(pruned)
    refuse_unfrozen_uses(pruned, handles)
    values = with_parts(graph, pruned, values)
    is_changed = inference.changed or bool(lifted.calls)
    frozen = FrozenGraph(
        source=pruned if is_changed else graph,
        graph=pruned,
        outputs=inference.outputs,
        inputs=inference.inputs + tuple(further),
        variables=fit_variables(graph, pruned, values, raw=raw),
        handles=handles,
        values=values,
        metadata=metadata,
        said=tuple(said),
        rewritten=is_changed,
        reference=reference,
        runs_source=inference.reference is not None or not inference.changed,
        settings=inference.settings,
        batches=inference.batches,
    )
    if inference.changed:
        frozen = replace(frozen, said=(*frozen.said, *_untouched_averages(frozen)))
    for line in frozen.said:
        progress.say(line)
    if not keep_variables:
        _refuse_too_large(frozen, form)
    return frozen


def _untouched_averages(frozen: FrozenGraph) -> list[str]:
    """A line where batch norms normalise with averages that no update ever moved."""
    averages = {
        variable.key: statistics_of(frozen.values[variable.key])
        for variable in frozen.variables.values()
        if is_average(variable.key)
    }
    untouched, count = untouched_batch_norms(
        {name: figures for name, figures in averages.items() if figures is not None}
    )
    if not untouched:
        return []
    return [
        f"The averages of {len(untouched)} of {count} batch norms are still at their initial"
        f" values (mean 0, variance 1), {untouched[0]} first: training never ran their updates, so"
        " the answers are not those of training."
    ]


def _read_value(node: NodeDef, dtype: int) -> None:
    """Turns a node that reads or passes a handle into the one for values, in place."""
    if node.op in HANDLE_PASSES:
        node.attr["T"].type = dtype
        return
    read = HANDLE_READS[node.op]
    kept = {name: node.attr[name] for name in read.kept_attributes if name in node.attr}
    changed = NodeDef(name=node.name, op=read.op, input=node.input)
    for name, value in kept.items():
        changed.attr[name].CopyFrom(value)
    changed.attr[read.dtype_attribute].type = dtype
    node.CopyFrom(changed)


def _first_input(node: NodeDef) -> str:
    if len(node.input) and not is_control(node.input[0]):
        return node_of(node.input[0])
    return ""


def _refuse_too_large(frozen: FrozenGraph, form: str) -> None:
    """Foretells a file beyond protobuf's limit, before anything is written."""
    variables = sum(variable.num_bytes for variable in frozen.variables.values())
    total = variables + frozen.graph.graph_def.ByteSize()
    total += _NODE_OVERHEAD_BYTES * len(frozen.variables)
    if total > MAX_MESSAGE_BYTES:
        next_step = "Keep the variables beside the graph: --to saved-model --keep-variables, or"
        next_step += " name an output that ends in .ckpt."
        if form == "saved-model":
            next_step = "Add --keep-variables, which keeps the variables beside the graph."
        raise UnsupportedError(
            f"The frozen graph would be {total / 2**30:.2f} GiB, more than {_HOLDERS.get(form, _HOLDERS['pb'])}.",
            expected=f"at most {MAX_MESSAGE_BYTES} bytes, protobuf's limit for one message",
            received=f"{total} bytes, {variables} of them variables",
            next_step=next_step,
        )
