"""What TensorFlow 1 has to know of loops and conditionals to differentiate them.

A loop of TensorFlow 1 is made of Enter, Merge, Switch, NextIteration and Exit nodes. Which belong to
one loop stands in collections of the MetaGraphDef; without them tf.gradients fails.

Source:
  CondContextDef and WhileContextDef as in TensorFlow's control_flow.proto, and how from_proto of
  control_flow_ops.py reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from checkpoints.messages import CondContextDef, NodeDef, WhileContextDef
from exporters.graph import Graph
from exporters.names import IMPORT_PREFIX, node_of
from exporters.rewrites.devices import clear_placement

WHILE_CONTEXT = "while_context"
COND_CONTEXT = "cond_context"
_WHILE = "WhileContextDef"
_MESSAGES: Mapping[str, Any] = {WHILE_CONTEXT: WhileContextDef, COND_CONTEXT: CondContextDef}

_PASSES = frozenset({"Exit", "Identity", "RefExit", "Switch"})

Fit = Callable[[str], "str | None"]
"""The name that a node or tensor of the source has in the graph that is written; None for none."""


class LoopContexts(NamedTuple):
    """The contexts of a graph.

    Attributes:
      collections: collection -> its entries.
      nodes: nodes that no output needs and a gradient does: the exit of each variable of a loop,
        and where each branch begins.
      lost: the first node of each loop that has no context.
    """

    collections: dict[str, list[bytes]]
    nodes: list[NodeDef]
    lost: list[str]

    @property
    def said(self) -> list[str]:
        """A line where there are loops without contexts."""
        if not self.lost:
            return []
        loops = ", ".join(self.lost[:3]) + (", ..." if len(self.lost) > 3 else "")
        return [
            f"What TensorFlow needs to differentiate the loop at {loops} is not in the source:"
            " tf.gradients fails there. The graph runs all the same."
        ]


def loop_contexts(source: Graph, nodes: Collection[str]) -> LoopContexts:
    """The contexts of a graph's loops and conditionals, for the nodes that are still there.

    Args:
      source: a graph, whose MetaGraphDef may hold contexts.
      nodes: the nodes that are written; an `import/` may be gone from all of them.
    """
    contexts = list(_contexts(source))
    added = _unneeded(source, nodes, contexts)

    def fit(name: str) -> str | None:
        for known in (name, name.removeprefix(IMPORT_PREFIX)):
            if node_of(known) in nodes or node_of(known) in added:
                return known
        return None

    collections: dict[str, list[bytes]] = {}
    entered: set[str] = set()
    for key, context in contexts:
        if _FITS[key](context, fit):
            entered |= _names_in(context)
            data = context.SerializeToString(deterministic=True)
            collections.setdefault(key, []).append(data)
    loops: dict[str, str] = {}
    for name, node in source.nodes.items():
        known = fit(name)
        if node.op not in ("Enter", "RefEnter") or "frame_name" not in node.attr:
            continue
        if known is not None and known not in entered:
            frame = node.attr["frame_name"].s.decode("utf-8", "replace")
            loops.setdefault(frame, known)
    needed = [node for name, node in added.items() if name in entered]
    return LoopContexts(collections, needed, list(loops.values()))


def _contexts(source: Graph) -> Iterator[tuple[str, Any]]:
    """The collection and the message of each context that can be read."""
    held = {} if source.meta_graph is None else source.meta_graph.collection_def
    for key, message in _MESSAGES.items():
        for data in held[key].bytes_list.value if key in held else ():
            with suppress(DecodeError):
                yield key, message.FromString(data)


def _unneeded(
    source: Graph, nodes: Collection[str], contexts: Iterable[tuple[str, Any]]
) -> dict[str, NodeDef]:
    """Nodes of contexts that only pass on what is there, and are not there themselves."""
    if source.meta_graph is None:
        return {}
    names = {name for _, context in contexts for name in _names_in(context)}
    candidates = {
        node.name: node
        for node in source.meta_graph.graph_def.node
        if node.op in _PASSES and node.name in names and node.name not in nodes
    }
    added: dict[str, NodeDef] = {}
    while True:
        found = [
            node
            for name, node in candidates.items()
            if name not in added
            and all(node_of(entry) in nodes or node_of(entry) in added for entry in node.input)
        ]
        if not found:
            return added
        for node in found:
            added[node.name] = NodeDef()
            added[node.name].CopyFrom(node)
            clear_placement(added[node.name])


def _names_in(context: Any) -> set[str]:
    """All nodes that a context names, those of contexts inside it included."""
    found = {context.pivot_name, *context.values_def.values}
    if context.DESCRIPTOR.name == _WHILE:
        found |= {*context.loop_enter_names, *context.loop_exit_names}
    found = {node_of(name) for name in found}
    for nested in context.nested_contexts:
        kind = nested.WhichOneof("ctxt")
        found |= _names_in(getattr(nested, kind)) if kind else set()
    return found


def _fit_while(context: Any, fit: Fit) -> bool:
    for field in ("pivot_name", "pivot_for_pred_name", "pivot_for_body_name"):
        if not _fit_name(context, field, fit):
            return False
    if context.maximum_iterations_name and not _fit_name(context, "maximum_iterations_name", fit):
        context.maximum_iterations_name = ""
    for names in (context.loop_exit_names, context.loop_enter_names):
        names[:] = [known for name in names if (known := fit(name)) is not None]
    return _fit_inner(context, fit)


def _fit_cond(context: Any, fit: Fit) -> bool:
    names = ("pred_name", "pivot_name")
    return all(_fit_name(context, field, fit) for field in names) and _fit_inner(context, fit)


_FITS = {WHILE_CONTEXT: _fit_while, COND_CONTEXT: _fit_cond}


def _fit_name(context: Any, field: str, fit: Fit) -> bool:
    known = fit(getattr(context, field))
    if known is not None:
        setattr(context, field, known)
    return known is not None


def _fit_inner(context: Any, fit: Fit) -> bool:
    """Leaves out what is not there of a context's values and of the contexts inside it."""
    values = context.values_def.values
    values[:] = [known for name in values if (known := fit(name)) is not None]
    external = dict(context.values_def.external_values)
    context.values_def.external_values.clear()
    for key, value in external.items():
        known, outside = fit(key), fit(value)
        if known is not None and outside is None:
            return False
        if known is not None:
            context.values_def.external_values[known] = outside
    nested = list(context.nested_contexts)
    del context.nested_contexts[:]
    for inner in nested:
        kind = inner.WhichOneof("ctxt")
        fits = {"while_ctxt": _fit_while, "cond_ctxt": _fit_cond}.get(kind or "")
        if fits is not None and fits(getattr(inner, kind), fit):
            context.nested_contexts.append(inner)
    return True
