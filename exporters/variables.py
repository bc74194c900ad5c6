"""The variables of a graph: where their values are, and how the graph uses them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from checkpoints.dtypes import name_of_number
from checkpoints.errors import GraphError, UnsupportedError, listed, near_names
from checkpoints.messages import DataType, NodeDef
from checkpoints.names import averaged_names
from exporters.graph import Graph, dimensions
from exporters.names import IMPORT_PREFIX
from exporters.ops import HANDLE_PASSES, HANDLE_READS, HANDLE_VARIABLES, VARIABLES
from exporters.savers.names import saved_names
from exporters.values import Header, Values, header_of

_NEEDS_REFERENCE = frozenset({"IsVariableInitialized", "RefSelect"})


@dataclass(frozen=True)
class FrozenVariable:
    """A variable that becomes a constant.

    Attributes:
      node: its node in the graph, which keeps its name.
      key: its name in the checkpoint.
      header: its dtype and shape.
    """

    node: str
    key: str
    header: Header

    @property
    def num_bytes(self) -> int:
        """The size of its values; of strings only a lower bound."""
        itemsize = 1 if self.header.dtype.is_string else self.header.dtype.numpy.itemsize
        return math.prod(self.header.shape) * itemsize


def fit_variables(
    graph: Graph, pruned: Graph, values: Values, *, raw: bool = False
) -> dict[str, FrozenVariable]:
    """Finds each variable of a pruned graph among the values.

    The graph's own Saver says under which name a variable was saved; without one, or where the
    values have no such name, it is the name of the node, else the name it is shared under, else
    the node's without `import/`. Where the Saver restores a variable from its moving average, as
    that of an evaluation graph does, and the values have no average, it is the name without.

    Args:
      graph: the whole graph, its Saver included.
      pruned: the part of it whose variables are wanted.
      values: the variables by name.
      raw: whether moving averages are left alone, whatever the Saver says.

    Raises:
      GraphError: variables are absent or of another dtype or shape; all are listed.
    """
    nodes = [node for node in pruned.nodes.values() if node.op in VARIABLES]
    saved = saved_names(graph) if nodes else {}
    averaged = restored_from_averages(saved)
    parts = getattr(values, "parts", {})
    fitted: dict[str, FrozenVariable] = {}
    absent, misfits = [], []
    for node in nodes:
        # Where the node is a slice of a variable, the values have it under the node's name.
        names = [node.name] if node.name in parts else _names_of(node, saved, averaged)
        if raw and node.name in averaged:
            names = [averaged[node.name]]
        key = next((name for name in names if name in values), None)
        if key is None:
            absent.append(node.name)
            continue
        header = header_of(values, key)
        if _fits(node, header):
            fitted[node.name] = FrozenVariable(node.name, key, header)
        else:
            misfits.append(f"{node.name}: graph {_declared(node)}, checkpoint {header}")
    if absent or misfits:
        raise _misfit_error(graph, values, absent, misfits, len(nodes))
    return fitted


def restored_from_averages(saved: dict[str, str]) -> dict[str, str]:
    """Variable's node -> its name in the checkpoint, where the Saver reads its moving average.

    So it is where a Saver was made of ExponentialMovingAverage.variables_to_restore().

    Args:
      saved: what `saved_names` gives.
    """
    return {
        node: name for node, key in saved.items() for name in averaged_names((key,)) if node != key
    }


def _names_of(node: NodeDef, saved: dict[str, str], averaged: dict[str, str]) -> Iterable[str]:
    """Names a variable may have in a checkpoint, the likeliest first."""
    names = [saved.get(node.name, node.name), averaged.get(node.name, node.name), node.name]
    if "shared_name" in node.attr:
        names.append(node.attr["shared_name"].s.decode("utf-8", "replace"))
    return [*names, node.name.removeprefix(IMPORT_PREFIX)]


def _misfit_error(
    graph: Graph, values: Values, absent: list[str], misfits: list[str], num_variables: int
) -> GraphError:
    parts = []
    if misfits:
        parts.append(f"{len(misfits)} of another dtype or shape:\n{listed(misfits)}")
    if absent:
        parts.append(f"{len(absent)} absent from the checkpoint:\n{listed(absent)}")
    near = near_names(absent[0], list(values)) if absent else []
    return GraphError(
        f"Graph and checkpoint do not fit. Of {num_variables} variables in {graph.label}\n"
        + "\n".join(parts),
        expected="every variable the outputs need, in the graph's dtype and shape",
        received=f"a checkpoint of {len(values)} variables"
        + (f", with names like {', '.join(near)}" if near else ""),
        next_step="Give the graph that the checkpoint was saved from (--graph), or the number of"
        " classes it was trained with (--classes).",
    )


def _fits(node: NodeDef, header: Header) -> bool:
    if "dtype" not in node.attr or node.attr["dtype"].type != header.dtype.number:
        return False
    declared = dimensions(node.attr["shape"].shape) if "shape" in node.attr else None
    if declared is None:
        return True
    return len(declared) == len(header.shape) and all(
        size in (None, actual) for size, actual in zip(declared, header.shape, strict=True)
    )


def _declared(node: NodeDef) -> str:
    shape = dimensions(node.attr["shape"].shape) if "shape" in node.attr else None
    sizes = (
        "?" if shape is None else ", ".join("?" if size is None else str(size) for size in shape)
    )
    return f"{name_of_number(node.attr['dtype'].type)} [{sizes}]"


def follow_handles(graph: Graph) -> dict[str, str]:
    """Follows every variable's handle through the nodes that only pass it on.

    Returns:
      Node that has a handle as its output -> the variable's node; the variables are among them.
    """
    handles = {name: name for name, node in graph.nodes.items() if node.op in HANDLE_VARIABLES}
    waiting = list(handles)
    while waiting:
        current = waiting.pop()
        for reader in graph.consumers.get(current, ()):
            node = graph.nodes[reader]
            if reader not in handles and passes_handle(node):
                handles[reader] = handles[current]
                waiting.append(reader)
    return handles


def refuse_unfrozen_uses(graph: Graph, handles: dict[str, str]) -> None:
    """Raises UnsupportedError where a variable is used in a way that has no op on constants."""
    problems = []
    for holder, variable in handles.items():
        for reader in graph.consumers.get(holder, ()):
            node = graph.nodes[reader]
            if reader in handles:
                continue
            read = HANDLE_READS.get(node.op)
            zero = read.zero_attribute if read is not None else ""
            if read is None or (zero and zero in node.attr and node.attr[zero].i):
                problems.append(f"{reader} ({node.op}) uses the handle of {variable}")
    problems += [
        f"{name} ({node.op}) asks about a variable, not for its value"
        for name, node in graph.nodes.items()
        if node.op in _NEEDS_REFERENCE
    ]
    if problems:
        raise UnsupportedError(
            f"{graph.label} uses variables in ways that constants have no answer for:\n"
            f"{listed(problems)}",
            expected=f"variables read by {', '.join(HANDLE_READS)}",
            next_step="Name outputs that do without these nodes: --outputs",
        )


def passes_handle(node: NodeDef) -> bool:
    """Whether a node's output is the handle that it is given."""
    return (
        node.op in HANDLE_PASSES
        and "T" in node.attr
        and node.attr["T"].type == DataType.DT_RESOURCE
    )
