"""Which of a net's update operations a step runs: those that write variables of trained scopes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from checkpoints.scopes import in_scopes
from exporters.runtime import load_tensorflow
from finetune.workers.workers import Workers

_WRITING = ("Assign", "Scatter", "ResourceScatter")
"""What the types of operations that write a variable begin with; its handle is their first input."""


def updates_within(updates: Iterable[Any], scopes: Sequence[str]) -> list[Any]:
    """The operations of the collection `update_ops` that write into scopes.

    A scope is looked for in the variable's name: the name of an operation may repeat scopes, as
    in `Net/Net/Block/AssignMovingAvg`. Of an update that writes several variables, only what
    writes into the scopes is taken. One that writes no variable is taken by its own name.

    Args:
      updates: operations, tensors, or what assigning to a variable gave.
      scopes: scopes of variables that train.
    """
    found: dict[str, Any] = {}
    for update in updates:
        operation = update if hasattr(update, "control_inputs") else update.op
        writing = _writing(operation)
        if not writing and in_scopes(operation.name, scopes):
            found[operation.name] = operation
        for one in writing:
            if in_scopes(_written(one), scopes):
                found[one.name] = one
    return list(found.values())


def joined_averages(updates: Sequence[Any], workers: Workers) -> list[Any]:
    """The updates, and after them the mean over all processes of the averages that they write.

    Each process normalises its own rows of a batch; what is kept is the mean of their means and
    of their variances.

    Args:
      updates: operations that write variables of the current graph.
      workers: the processes.
    """
    if workers.count == 1 or not updates:
        return list(updates)
    tf = load_tensorflow()
    names = {_written(one) for update in updates for one in _writing(update)}
    averages = [
        variable
        for variable in tf.compat.v1.global_variables()
        if variable.op.name in names and variable.dtype.base_dtype.is_floating
    ]
    with tf.control_dependencies(updates):
        values = [variable.read_value() for variable in averages]
    pairs = zip(averages, workers.mean(values), strict=True)
    return [*updates, *[variable.assign(mean).op for variable, mean in pairs]]


def _writing(operation: Any) -> list[Any]:
    """The operations nearest to an update that write variables: itself, or what it waits for."""
    found = []
    waiting = [operation]
    seen = set()
    while waiting:
        one = waiting.pop()
        if one.name in seen:
            continue
        seen.add(one.name)
        if one.type.startswith(_WRITING):
            found.append(one)
        else:
            waiting += [*one.control_inputs, *(tensor.op for tensor in one.inputs)]
    return found


def _written(operation: Any) -> str:
    """The name of the variable that an operation writes."""
    while operation.inputs:
        operation = operation.inputs[0].op
    return str(operation.name)
