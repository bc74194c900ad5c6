"""What a Plan holds: every variable of a net, what becomes of it, and what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Literal

from checkpoints.errors import PlanError, counted, listed

AVERAGES = ("moving_mean", "moving_variance")
"""Last parts of the names of batch-norm averages."""


@dataclass(frozen=True)
class NetVariable:
    """A variable of a net.

    Attributes:
      name: without `:0`.
      shape: its sizes.
      dtype: TensorFlow's name of it, as in "float32".
      trainable: whether an optimiser may change it; batch-norm averages are not.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    trainable: bool = True


@dataclass(frozen=True)
class PlannedVariable:
    """What becomes of one variable of the net.

    Attributes:
      name: without `:0`.
      shape: its sizes.
      dtype: the net's dtype.
      state: frozen does not change; trainable does: by the optimiser, or, for batch-norm
        averages, by the updates that go with it.
      origin: restored from the checkpoint or initialised.
      optimised: whether the optimiser changes it.
      reason: why it is initialised; empty where it is restored.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    state: Literal["frozen", "trainable"]
    origin: Literal["restored", "initialised"]
    optimised: bool
    reason: str = ""

    @property
    def parameters(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True)
class Conflict:
    """A variable whose saved shape or dtype does not fit the net's."""

    name: str
    checkpoint_shape: tuple[int, ...]
    net_shape: tuple[int, ...]
    checkpoint_dtype: str
    net_dtype: str

    def __str__(self) -> str:
        if self.checkpoint_shape == self.net_shape:
            return f"{self.name}: checkpoint {self.checkpoint_dtype}, net {self.net_dtype}"
        return f"{self.name}: checkpoint {list(self.checkpoint_shape)}, net {list(self.net_shape)}"


@dataclass(frozen=True)
class Unused:
    """An entry of the checkpoint that goes nowhere."""

    name: str
    reason: Literal["class-count", "excluded-scope", "not-in-net"]


@dataclass(frozen=True)
class PlannedPhase:
    """A stretch of training: what begins to train in it.

    Attributes:
      number: from 1.
      begins: its first step or epoch, as in "step 1001" or "epoch 6".
      trainable: all scopes that train in it.
      scopes: those of them that did not train before.
      variables: names of the variables that change from then on and did not before.
      parameters: how many numbers the optimiser changes from then on and did not before.
    """

    number: int
    begins: str
    trainable: tuple[str, ...]
    scopes: tuple[str, ...]
    variables: tuple[str, ...]
    parameters: int

    def describe(self, of: int) -> str:
        """It in a line; `of` is the number of phases."""
        also, more = ("also ", "more ") if self.number > 1 else ("", "")
        if not self.variables:
            return (
                f"Phase {self.number} of {of}, from {self.begins} on, trains nothing that did not "
                "train before; the learning rate changes, and the optimiser starts afresh."
            )
        count = counted(len(self.variables), f"{more}variable")
        return (
            f"Phase {self.number} of {of}, from {self.begins} on, {also}trains "
            f"{', '.join(self.scopes) or 'nothing'}: {count}, "
            f"{self.parameters:,} {more}parameters."
        )


@dataclass(frozen=True)
class Plan:
    """The partition of a net's variables.

    Attributes:
      variables: every variable of the net, in its order.
      conflicts: restored variables that do not fit; training is refused while there is one.
      missing: variables the checkpoint lacks and nothing excuses; refused likewise.
      unused: entries of the checkpoint that nothing takes.
      trainable: the trainable scopes.
      exclude: the excluded scopes.
      checkpoint: where the values come from, as a person would name it; None: nowhere.
      notes: what is worth knowing, a line each.
      phases: what begins to train when, where that is known.
    """

    variables: tuple[PlannedVariable, ...]
    conflicts: tuple[Conflict, ...]
    missing: tuple[NetVariable, ...]
    unused: tuple[Unused, ...]
    trainable: tuple[str, ...]
    exclude: tuple[str, ...]
    checkpoint: str | None
    notes: tuple[str, ...] = ()
    phases: tuple[PlannedPhase, ...] = ()

    @property
    def restored(self) -> tuple[PlannedVariable, ...]:
        """Variables whose values come from the checkpoint."""
        return tuple(v for v in self.variables if v.origin == "restored")

    @property
    def initialised(self) -> tuple[PlannedVariable, ...]:
        """Variables that start from their initialisers."""
        return tuple(v for v in self.variables if v.origin == "initialised")

    @property
    def frozen(self) -> tuple[PlannedVariable, ...]:
        """Variables that must not change by a bit."""
        return tuple(v for v in self.variables if v.state == "frozen")

    @property
    def optimised(self) -> tuple[PlannedVariable, ...]:
        """Variables the optimiser gets, and no others."""
        return tuple(v for v in self.variables if v.optimised)

    def totals(self) -> dict[str, int]:
        """Counts of variables and of parameters."""

        def parameters(variables: Iterable[PlannedVariable]) -> int:
            return sum(variable.parameters for variable in variables)

        return {
            "variables": len(self.variables),
            "restored": len(self.restored),
            "initialised": len(self.initialised),
            "frozen": len(self.frozen),
            "trainable": len(self.variables) - len(self.frozen),
            "unused": len(self.unused),
            "parameters": parameters(self.variables),
            "trainable_parameters": parameters(self.optimised),
            "initialised_parameters": parameters(self.initialised),
        }

    def as_json(self) -> dict[str, Any]:
        """What plan.json and `plan --json` hold."""
        return {
            "checkpoint": self.checkpoint,
            "trainable": list(self.trainable),
            "exclude": list(self.exclude),
            "variables": [
                {
                    "name": v.name,
                    "shape": list(v.shape),
                    "dtype": v.dtype,
                    "state": v.state,
                    "origin": v.origin,
                    "optimised": v.optimised,
                    "reason": v.reason,
                }
                for v in self.variables
            ],
            "conflicts": [
                {
                    "name": c.name,
                    "checkpoint_shape": list(c.checkpoint_shape),
                    "net_shape": list(c.net_shape),
                    "checkpoint_dtype": c.checkpoint_dtype,
                    "net_dtype": c.net_dtype,
                }
                for c in self.conflicts
            ],
            "missing": [{"name": v.name, "shape": list(v.shape)} for v in self.missing],
            "unused": [{"name": u.name, "reason": u.reason} for u in self.unused],
            "phases": [asdict(phase) for phase in self.phases],
            "totals": self.totals(),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """What is restored, initialised and trained, in numbers."""
        totals = self.totals()
        source = "" if self.checkpoint is None else f" from {self.checkpoint}"
        return (
            f"{counted(totals['variables'], 'variable')}, {totals['parameters']:,} parameters: "
            f"{totals['restored']} restored{source}, {totals['initialised']} initialised; {totals['trainable_parameters']:,} parameters "
            "are trained."
        )

    def lines(self) -> list[str]:
        """The plan in words: the summary, what is left out, notes, and phases where there are several."""
        reasons: dict[str, list[str]] = {}
        for unused in self.unused:
            reasons.setdefault(unused.reason, []).append(unused.name)
        left_out = []
        for reason, names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            left_out.append(f"Left out, {reason}: {', '.join(names[:3])}{more}")
        phases = [phase.describe(len(self.phases)) for phase in self.phases]
        return [
            self.summary(),
            *left_out,
            *(f"Note: {note}" for note in self.notes),
            *(phases if len(phases) > 1 else ()),
        ]

    def require_sound(self) -> None:
        """Raises PlanError with every conflict and every missing variable, and what would help."""
        if self.conflicts:
            solved_by = tuple(dict.fromkeys([*self.exclude, *self._conflicting_scopes()]))
            raise PlanError(
                f"{counted(len(self.conflicts), 'variable')} of {self.checkpoint} with another shape or "
                "dtype in the net:\n" + listed(self.conflicts),
                expected="equal shapes and dtypes of every restored variable",
                received="; ".join(str(conflict) for conflict in self.conflicts[:3]),
                next_step=f"--exclude {','.join(solved_by)} initialises them instead.",
            )
        if self.missing:
            raise PlanError(
                f"{self.checkpoint} lacks {counted(len(self.missing), 'variable')} of the net:\n"
                + listed(f"{v.name} {list(v.shape)}" for v in self.missing),
                expected="every variable of the net outside the excluded scopes",
                received=self._normaliser_hint()
                or f"{len(self.unused)} entries that the net does not have",
                next_step="Check that net and checkpoint belong together, --exclude their scopes, or "
                "excuse them with --allow-missing REGEX (they then start at random).",
            )

    def _conflicting_scopes(self) -> list[str]:
        """The scopes that hold exactly the layers in conflict."""
        return list(dict.fromkeys(c.name.rpartition("/")[0] or c.name for c in self.conflicts))

    def _normaliser_hint(self) -> str | None:
        """Whether one side has batch norm where the other has biases."""
        extra = [u.name for u in self.unused if u.reason == "not-in-net"]
        lacking = [v.name for v in self.missing]
        if _has_batch_norm(extra) and any(n.endswith("/biases") for n in lacking):
            return (
                "batch-norm variables in the checkpoint where the net has biases: the net was "
                "built without the normaliser (normalizer_fn=slim.batch_norm, usually set by its "
                "arg_scope)"
            )
        if _has_batch_norm(lacking) and any(n.endswith("/biases") for n in extra):
            return (
                "biases in the checkpoint where the net has batch-norm variables: the checkpoint "
                "was trained without the normaliser"
            )
        return None


def _has_batch_norm(names: Sequence[str]) -> bool:
    return any(name.rpartition("/")[2] in ("beta", "gamma", *AVERAGES) for name in names)
