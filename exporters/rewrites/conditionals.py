"""Takes the branch of a conditional that constants decide on: Switch and Merge, If, Case, Select."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from checkpoints.errors import GraphError, listed
from checkpoints.messages import DataType, NodeDef
from exporters.constants import Array
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.names import TensorName, is_control, node_of, reference_to, tensor_of
from exporters.rewrites.changes import Changes
from exporters.rewrites.draft import Draft
from exporters.rewrites.inlining import inline

_SWITCHES = frozenset({"RefSwitch", "Switch"})
_MERGES = frozenset({"Merge", "RefMerge"})
_IFS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_SELECTS = frozenset({"Select", "SelectV2"})
_MAX_ROUNDS = 64
"""Branches inside branches, each a function of its own."""


def resolve_conditionals(draft: Draft) -> Draft:
    """Leads every reader of a decided conditional to the branch that is taken.

    Branches that are functions are inlined. A branch may decide on others, so this goes on
    until nothing is decided any more.

    Raises:
      GraphError: an output lies in a branch that is not taken.
    """
    count = 0
    for _ in range(_MAX_ROUNDS):
        changes = draft.changes()
        evaluator = Evaluator(draft.graph)
        decided = _resolve_switches(draft, changes, evaluator)
        decided += _resolve_functions(draft.graph, changes, evaluator)
        decided += _resolve_selects(draft.graph, changes, evaluator)
        if not decided:
            break
        draft = _without_constant_control(draft.changed(changes))
        count += decided
    if not count:
        return draft
    return replace(draft, said=(*draft.said, f"{count} conditionals were decided by constants."))


def _resolve_switches(draft: Draft, changes: Changes, evaluator: Evaluator) -> int:
    graph = draft.graph
    dead: list[TensorName] = []
    for name, node in graph.nodes.items():
        if node.op not in _SWITCHES:
            continue
        inputs = graph.data_inputs(name)
        value = evaluator.value(inputs[1]) if len(inputs) == 2 else None
        if value is None or value.size != 1:
            continue
        taken = int(bool(value.reshape(())))
        changes.lead(TensorName(name, taken), inputs[0])
        changes.drop(name)
        dead.append(TensorName(name, 1 - taken))
    if not dead:
        return 0
    never = _never_run(graph, dead)
    _refuse_outputs(draft, never, dead)
    resolved = 0
    for name, node in graph.nodes.items():
        if name in never:
            changes.drop(name)
        elif node.op in _MERGES:
            resolved += _resolve_merge(graph, changes, node, never, set(dead))
    return resolved or len(dead)


def _resolve_merge(
    graph: Graph, changes: Changes, node: NodeDef, never: set[str], dead: set[TensorName]
) -> int:
    inputs = graph.data_inputs(node.name)
    alive = [
        place
        for place, tensor in enumerate(inputs)
        if tensor.node not in never and tensor not in dead
    ]
    if len(alive) == len(inputs):
        return 0
    if len(alive) > 1:
        fewer = NodeDef()
        fewer.CopyFrom(node)
        fewer.attr["N"].i = len(alive)
        fewer.input[:] = [reference_to(inputs[place]) for place in alive]
        changes.put(fewer)
        return 0
    index = NodeDef(name=changes.new_name(f"{node.name}/value_index"), op="Const")
    index.attr["dtype"].type = DataType.DT_INT32
    index.attr["value"].tensor.dtype = DataType.DT_INT32
    index.attr["value"].tensor.tensor_shape.SetInParent()
    index.attr["value"].tensor.int_val.append(alive[0])
    changes.put(index)
    changes.lead(TensorName(node.name, 0), inputs[alive[0]])
    changes.lead(TensorName(node.name, 1), TensorName(index.name))
    changes.drop(node.name, [inputs[alive[0]].node])
    return 1


def _never_run(graph: Graph, dead: Iterable[TensorName]) -> set[str]:
    """Nodes that lie in branches that are not taken."""
    never: set[str] = set()
    dead_tensors = set(dead)

    def is_dead(reference: str) -> bool:
        if node_of(reference) in never:
            return True
        return not is_control(reference) and tensor_of(reference) in dead_tensors

    waiting = list(dict.fromkeys(tensor.node for tensor in dead_tensors))
    while waiting:
        current = waiting.pop()
        for name in graph.users.get(current, ()):
            if name in never:
                continue
            node = graph.nodes[name]
            data = [reference for reference in node.input if not is_control(reference)]
            if node.op in _MERGES:
                is_never = all(map(is_dead, data))
            else:
                is_never = any(map(is_dead, node.input))
            if is_never:
                never.add(name)
                waiting.append(name)
    return never


def _refuse_outputs(draft: Draft, never: set[str], dead: list[TensorName]) -> None:
    lost = [tensor for tensor in draft.kept if tensor.node in never or tensor in dead]
    if lost:
        raise GraphError(
            f"{draft.graph.label} does not compute these with the settings it has:\n{listed(lost)}",
            expected="outputs and inputs of the branches that are taken",
            received="\n".join(draft.said) or None,
            next_step="Name what lies behind the conditional: --outputs NAME, or set it otherwise:"
            " --set NAME=VALUE",
        )


def _resolve_functions(graph: Graph, changes: Changes, evaluator: Evaluator) -> int:
    count = 0
    for node in graph.nodes.values():
        if node.op not in _IFS and node.op not in _CASES:
            continue
        inputs = graph.data_inputs(node.name)
        value = evaluator.value(inputs[0]) if inputs else None
        branch = None if value is None or value.size != 1 else _branch(node, value)
        if branch is not None:
            inline(graph, changes, node, branch, inputs[1:])
            count += 1
    return count


def _branch(node: NodeDef, value: Array) -> str | None:
    """The function of the branch that a value decides for."""
    decisive = value.reshape(()).item()
    if node.op in _IFS:
        attribute = "then_branch" if decisive else "else_branch"
        return str(node.attr[attribute].func.name) if attribute in node.attr else None
    branches = node.attr["branches"].list.func if "branches" in node.attr else ()
    if not len(branches):
        return None
    # What lies outside takes the last branch.
    place = int(decisive) if 0 <= int(decisive) < len(branches) else len(branches) - 1
    return str(branches[place].name)


def _resolve_selects(graph: Graph, changes: Changes, evaluator: Evaluator) -> int:
    count = 0
    for name, node in graph.nodes.items():
        if node.op not in _SELECTS:
            continue
        inputs = graph.data_inputs(name)
        if len(inputs) != 3:
            continue
        condition, first, second = inputs
        value = evaluator.value(condition)
        if value is None or value.ndim:
            continue
        # SelectV2 may give either the shape of the other.
        shape = graph.shape(first)
        if node.op == "SelectV2" and (shape is None or shape != graph.shape(second)):
            continue
        changes.lead(TensorName(name), first if bool(value) else second)
        changes.drop(name)
        count += 1
    return count


def _without_constant_control(draft: Draft) -> Draft:
    """Leaves out control edges to what has become a constant: they order nothing."""
    graph = draft.graph
    constant: dict[str, bool] = {}

    def is_constant(name: str) -> bool:
        passed = []
        node = graph.node(name)
        while node.name not in constant and node.op == "Identity" and len(node.input) == 1:
            passed.append(node.name)
            node = graph.node(node_of(node.input[0]))
            if node.name in passed:
                break
        found = constant.get(node.name, node.op == "Const" and not len(node.input))
        constant.update(dict.fromkeys([*passed, node.name], found))
        return found

    changes = draft.changes()
    for node in graph.nodes.values():
        references = [
            reference
            for reference in node.input
            if not is_control(reference) or not is_constant(node_of(reference))
        ]
        if len(references) != len(node.input):
            changed = NodeDef()
            changed.CopyFrom(node)
            changed.input[:] = references
            changes.put(changed)
    return draft.changed(changes)
