"""Takes out control edges behind which nothing happens.

A tf.function lets its results wait for everything in it that has state: reads of variables, noise,
updates. Once the updates are gone that orders nothing, and would keep nodes that nothing reads.
"""

from __future__ import annotations

from checkpoints.messages import NodeDef
from exporters.graph import Graph
from exporters.names import is_control, node_of
from exporters.rewrites.checks import is_check
from exporters.rewrites.draft import Draft
from exporters.rewrites.prune import calls_function
from exporters.safety import reason_against

_CONTROL_FLOW = frozenset(
    {
        "Enter",
        "Exit",
        "LoopCond",
        "Merge",
        "NextIteration",
        "RefEnter",
        "RefExit",
        "RefMerge",
        "RefNextIteration",
        "RefSwitch",
        "Switch",
    }
)


def drop_idle_waiting(draft: Draft) -> Draft:
    """Lets nodes wait only for what is, or needs, a check, a branch, a call or a write elsewhere."""
    eventful = _eventful(draft.graph)
    changes = draft.changes()
    for node in draft.graph.nodes.values():
        references = [
            reference
            for reference in node.input
            if not is_control(reference) or node_of(reference) in eventful
        ]
        if len(references) != len(node.input):
            changed = NodeDef()
            changed.CopyFrom(node)
            changed.input[:] = references
            changes.put(changed)
    return draft.changed(changes)


def _eventful(graph: Graph) -> set[str]:
    """Nodes that others may have a reason to wait for, and all that comes after them."""
    events = [name for name, node in graph.nodes.items() if _is_eventful(graph, node)]
    return graph.descendants(events)


def _is_eventful(graph: Graph, node: NodeDef) -> bool:
    return (
        is_check(node)
        or node.op in _CONTROL_FLOW
        or reason_against(node.op) is not None
        or calls_function(graph, node)
    )
