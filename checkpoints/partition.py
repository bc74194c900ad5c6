"""Partition: a net's variables and a checkpoint's entries compared, and a Plan made of it.

Everything is compared by name, shape and dtype before any session runs: with resource
variables TensorFlow itself loads a head of ten classes into a net of five without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Literal, Protocol

from checkpoints.errors import PlanError, counted
from checkpoints.names import role
from checkpoints.plan import Conflict, NetVariable, Plan, PlannedVariable, Unused
from checkpoints.scopes import clean_scopes, in_scopes, require_matches

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Dtypes that are converted into one another when a variable is restored."""


class SavedVariable(Protocol):
    """What is asked of a checkpoint's entry."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        ...

    @property
    def dtype_name(self) -> str:
        """TensorFlow's name of its dtype."""
        ...


def make_plan(
    variables: Sequence[NetVariable],
    saved: Mapping[str, SavedVariable] | None,
    *,
    trainable: Iterable[str],
    exclude: Iterable[str] = (),
    allow_missing: str | None = None,
    checkpoint: str | None = None,
    head_scopes: Sequence[str] = (),
    updating: Sequence[str] | None = None,
) -> Plan:
    """Partitions the variables of a net.

    Args:
      variables: all of the net's variables, optimiser slots and steps too where there are any.
      saved: the checkpoint's entries by name; None: no checkpoint, everything is initialised.
      trainable: scopes that are trained; everything else is frozen.
      exclude: scopes that are not restored.
      allow_missing: regular expression; variables that match it in full may be absent.
      checkpoint: the name of the checkpoint, for messages.
      head_scopes: scopes of the net's heads, whose restoring is worth a note.
      updating: trainable scopes whose batch norms update their averages; None: all of them.

    Returns:
      The plan, with conflicts and missing variables in it: `require_sound` raises them.

    Raises:
      PlanError: a scope holds no variable, or allow_missing is no regular expression.
    """
    trainable, exclude = clean_scopes(trainable), clean_scopes(exclude)
    names = [variable.name for variable in variables]
    require_matches(trainable, names, "--trainable")
    require_matches(exclude, [*names, *(saved or ())], "--exclude")
    excused = _compiled(allow_missing)

    planned: list[PlannedVariable] = []
    conflicts: list[Conflict] = []
    missing: list[NetVariable] = []
    pardoned: list[NetVariable] = []
    used: set[str] = set()
    for variable in variables:
        reason = ""
        entry = None if saved is None else saved.get(variable.name)
        if saved is None:
            reason = "no checkpoint"
        elif in_scopes(variable.name, exclude):
            reason = "excluded scope"
        elif entry is None:
            reason = "not in the checkpoint"
            if excused is not None and excused.fullmatch(variable.name):
                pardoned.append(variable)
            elif role(variable.name, names) not in ("slot", "step"):
                missing.append(variable)
        else:
            used.add(variable.name)
            if not _fits(variable, entry):
                conflicts.append(_conflict(variable, entry))
        changes = in_scopes(variable.name, trainable)
        if changes and not variable.trainable and updating is not None:
            changes = in_scopes(variable.name, updating)
        planned.append(
            PlannedVariable(
                name=variable.name,
                shape=variable.shape,
                dtype=variable.dtype,
                state="trainable" if changes else "frozen",
                origin="initialised" if reason else "restored",
                optimised=changes and variable.trainable,
                reason=reason,
            )
        )
    unused = _unused(saved or {}, used, {v.name: v for v in variables}, exclude)
    return Plan(
        variables=tuple(planned),
        conflicts=tuple(conflicts),
        missing=tuple(missing),
        unused=unused,
        trainable=trainable,
        exclude=exclude,
        checkpoint=checkpoint,
        notes=tuple(
            _notes(
                planned, pardoned, saved or {}, head_scopes, exclude, {v.name: v for v in variables}
            )
        ),
    )


def _compiled(allow_missing: str | None) -> re.Pattern[str] | None:
    if allow_missing is None:
        return None
    try:
        return re.compile(allow_missing)
    except re.error as error:
        raise PlanError(
            "--allow-missing is no regular expression.",
            expected="as in '.*/biases'",
            received=f"{allow_missing} ({error})",
        ) from error


def _fits(variable: NetVariable, entry: SavedVariable) -> bool:
    same_kind = variable.dtype == entry.dtype_name or {variable.dtype, entry.dtype_name} <= FLOATS
    return same_kind and tuple(variable.shape) == tuple(entry.shape)


def _conflict(variable: NetVariable, entry: SavedVariable) -> Conflict:
    return Conflict(
        name=variable.name,
        checkpoint_shape=tuple(entry.shape),
        net_shape=variable.shape,
        checkpoint_dtype=entry.dtype_name,
        net_dtype=variable.dtype,
    )


def _unused(
    saved: Mapping[str, SavedVariable],
    used: set[str],
    variables: Mapping[str, NetVariable],
    exclude: Sequence[str],
) -> tuple[Unused, ...]:
    unused: list[Unused] = []
    for name, entry in saved.items():
        if name in used:
            continue
        reason: Literal["class-count", "excluded-scope", "not-in-net"] = "not-in-net"
        if in_scopes(name, exclude):
            variable = variables.get(name)
            fits = variable is None or _fits(variable, entry)
            reason = "excluded-scope" if fits else "class-count"
        unused.append(Unused(name, reason))
    return tuple(unused)


def _notes(
    planned: Sequence[PlannedVariable],
    pardoned: Sequence[NetVariable],
    saved: Mapping[str, SavedVariable],
    head_scopes: Sequence[str],
    exclude: Sequence[str],
    variables: Mapping[str, NetVariable],
) -> Iterable[str]:
    if pardoned:
        lost = sum(prod(variable.shape) for variable in pardoned)
        share = lost / max(1, sum(variable.parameters for variable in planned))
        yield (
            f"{counted(len(pardoned), 'variable')} missing from the checkpoint, started at random: "
            f"{lost:,} parameters, {share:.1%} of the net."
        )
    excluded_heads = [scope for scope in head_scopes if scope in exclude]
    in_heads = [name for name in variables if in_scopes(name, excluded_heads)]
    if excluded_heads and all(
        name in saved and _fits(variables[name], saved[name]) for name in in_heads
    ):
        yield (
            "The checkpoint's heads have this net's shapes: --exclude none would restore them too."
        )
    random = [v for v in planned if v.state == "frozen" and v.origin == "initialised" and saved]
    strangers = [v for v in random if not in_scopes(v.name, head_scopes)]
    strangers = [v for v in strangers if role(v.name, list(variables)) not in ("slot", "step")]
    if strangers:
        yield (
            f"{counted(len(strangers), 'variable')} initialised and frozen, so left at random values, "
            f"as {strangers[0].name}."
        )
