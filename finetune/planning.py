"""What train would do, without doing it; and the same plan applied to a session of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import checkpoints
from checkpoints.errors import PlanError, UsageError, counted, listed
from checkpoints.partition import make_plan
from checkpoints.plan import Plan, PlannedPhase, PlannedVariable
from checkpoints.progress import SILENT, Progress
from checkpoints.published import Net
from checkpoints.scopes import clean_scopes, in_scope, require_matches
from finetune.nets.file_options import NetOptions
from finetune.training.heads import LINEAR, Head
from finetune.training.option_checks import wrong_options
from finetune.training.stages import (
    default_trainable,
    is_order_known,
    named_scopes,
    read_stages,
    scopes_by_phase,
    updating_by_phase,
)
from finetune.weights import NONE, Weights, find_weights


def plan(
    *,
    classes: int,
    net: str | None = None,
    checkpoint: str | None = None,
    trainable: Sequence[str] = (),
    exclude: Sequence[str] | None = None,
    allow_missing: str | None = None,
    image_size: int | None = None,
    hidden: Sequence[int] = (),
    activation: str = "relu",
    unfreeze_at: Sequence[str] = (),
    bottleneck: str | None = None,
    input: str | None = None,
    preprocessing: str | None = None,
    progress: Progress = SILENT,
) -> Plan:
    """The partition that training would use, from the net's graph and the checkpoint's index.

    Args:
      classes: how many classes the new head has.
      net: name of a registered net, a file (.pb, .pbtxt, .meta), or "module:function"; left out,
        the net that goes with the checkpoint.
      checkpoint: a path in any spelling, a published name, "sample" or "none".
      trainable: scopes to train, or the words all and heads; empty: the main head.
      exclude: scopes not to restore; None: all heads; ("none",): none.
      allow_missing: regular expression of variables the checkpoint may lack.
      image_size: height and width in pixels; the net's own where left out.
      hidden: widths of hidden layers before the logits.
      activation: of the hidden layers: relu or leaky-relu.
      unfreeze_at: stages, as in ("1000:all",) or ("5e:Net/Block7", "Net/Block8").
      bottleneck: tensor that feeds the head of a net from a file; None: as it says, or a guess.
      input: tensor that takes the pictures of a net from a file.
      preprocessing: how pictures become its input.
      progress: where downloads and choices are told.

    Returns:
      The plan of the first phase, conflicts and missing variables listed in it, and what each
      phase begins to train.

    Raises:
      UsageError: an option makes no sense.
      PlanError: a scope matches nothing, or net and checkpoint do not belong together.
    """
    from finetune.nets import inference_graph

    given: dict[str, Any] = {"image_size": image_size, "activation": activation}
    given |= {"hidden": tuple(hidden), "unfreeze_at": tuple(unfreeze_at)}
    problems, received = wrong_options(given)
    if problems:
        raise UsageError(
            "The options do not fit:\n" + listed(problems),
            received=", ".join(received),
            next_step="slimtune plan --help",
        )
    stages = read_stages(unfreeze_at)
    options = NetOptions(bottleneck, input, preprocessing, image_size)
    weights = find_weights(net, checkpoint, options, progress=progress)
    size = image_size or weights.image_size
    head = Head(tuple(hidden), activation)
    variables = inference_graph(weights.net, classes, size, head).variables
    begins = ["step 1", *(stage.begins for stage in stages)]
    scopes = scopes_by_phase(weights.net, trainable, stages)
    updating = updating_by_phase(weights.net, scopes, None, is_restored=weights.is_restored)
    phases = list(zip(begins, scopes, updating, strict=True))
    made = plan_phases(variables, weights, phases, exclude, allow_missing)[0]
    if is_order_known(stages):
        return made
    note = (
        "steps and epochs in --unfreeze-at: which of them comes first depends on the number of "
        "pictures; phases are shown in the order typed."
    )
    return replace(made, notes=(*made.notes, note))


def plan_phases(
    variables: Sequence[Any],
    weights: Weights,
    phases: Sequence[tuple[str, Sequence[str], Sequence[str] | None]],
    exclude: Sequence[str] | None,
    allow_missing: str | None,
) -> list[Plan]:
    """The plans of a run's phases; each of them says what every phase begins to train.

    Args:
      variables: of the net.
      weights: what they start from.
      phases: when each begins, as in "step 1001", the scopes that train in it, and those of them
        whose batch norms update; None: all.
      exclude: scopes not to restore; None: all heads.
      allow_missing: regular expression of variables the checkpoint may lack.
    """
    first, *later = phases
    plans = [plan_variables(variables, weights, *first[1:], exclude, allow_missing)]
    names = [variable.name for variable in variables]
    begun_with = set(plans[0].trainable)
    unfrozen = dict.fromkeys(scope for _, scopes, _ in later for scope in scopes)
    require_matches([s for s in unfrozen if s not in begun_with], names, "--unfreeze-at")
    plans += [
        plan_variables(variables, weights, *each[1:], exclude, allow_missing) for each in later
    ]
    begun: list[PlannedPhase] = []
    for number, (made, (begins, *_)) in enumerate(zip(plans, phases, strict=True), start=1):
        scopes = {scope for phase in begun for scope in phase.trainable}
        known = {name for phase in begun for name in phase.variables}
        new = [v for v in made.variables if v.state == "trainable" and v.name not in known]
        begun.append(
            PlannedPhase(
                number=number,
                begins=begins,
                trainable=made.trainable,
                scopes=tuple(scope for scope in made.trainable if scope not in scopes),
                variables=tuple(variable.name for variable in new),
                parameters=sum(variable.parameters for variable in new if variable.optimised),
            )
        )
    return [replace(made, phases=tuple(begun)) for made in plans]


def plan_variables(
    variables: Sequence[Any],
    weights: Weights,
    trainable: Sequence[str],
    updating: Sequence[str] | None,
    exclude: Sequence[str] | None,
    allow_missing: str | None,
) -> Plan:
    """The plan of a registered net whose variables are known."""
    with weights.open() as saved:
        return make_plan(
            variables,
            None if saved is None else saved.variables,
            trainable=default_trainable(weights.net, trainable),
            exclude=default_exclude(weights, exclude),
            allow_missing=allow_missing,
            checkpoint=weights.name,
            head_scopes=weights.net.head_scopes,
            updating=updating,
        )


def refuse_unknown_scopes(
    weights: Weights,
    trainable: Sequence[str],
    unfreeze_at: Sequence[str],
    exclude: Sequence[str] | None,
    head: Head = LINEAR,
    image_size: int | None = None,
    *,
    progress: Progress = SILENT,
) -> None:
    """Finds scopes that no variable stands in before anything is read or computed for them.

    Where the names of the checkpoint and of the net's heads do not tell, the net is built, which
    takes seconds.

    Raises:
      PlanError: a scope holds no variable; near names are told.
    """
    from finetune.nets import inference_graph

    net = weights.net
    unfrozen = [scope for stage in read_stages(unfreeze_at) for scope in stage.scopes]
    asked = {
        "--trainable": named_scopes(net, trainable),
        "--unfreeze-at": named_scopes(net, unfrozen),
        "--exclude": clean_scopes(default_exclude(weights, exclude) if exclude else ()),
    }
    with weights.open() as saved:
        known = list(saved or ())
    if all(_is_known(scope, net, known) for scopes in asked.values() for scope in scopes):
        return
    with progress.task(f"Building {net.name}", None):
        size = image_size or weights.image_size
        names = [variable.name for variable in inference_graph(net, 2, size, head).variables]
    for option, scopes in asked.items():
        require_matches(scopes, [*names, *known] if option == "--exclude" else names, option)


def _is_known(scope: str, net: Net, saved: Sequence[str]) -> bool:
    """Whether a scope is there for certain: a head, or what the checkpoint has variables of."""
    heads = any(in_scope(head, scope) for head in net.head_scopes)
    return heads or any(in_scope(name, scope) for name in saved)


def default_exclude(weights: Weights, exclude: Sequence[str] | None) -> tuple[str, ...]:
    """The scopes asked for, else all heads; nothing where there is nothing to restore."""
    if exclude:
        return () if tuple(exclude) == (NONE,) else tuple(exclude)
    return weights.net.head_scopes if weights.is_restored else ()


def partition(
    variables: Iterable[Any],
    checkpoint: str | Path | None,
    trainable: Sequence[str],
    exclude: Sequence[str] = (),
    allow_missing: str | None = None,
) -> BoundPlan:
    """Partitions the variables of a TensorFlow 1 graph of one's own.

    Args:
      variables: tf.compat.v1.global_variables(), reference or resource variables.
      checkpoint: a path in any spelling, or None.
      trainable: scopes to train.
      exclude: scopes not to restore.
      allow_missing: regular expression of variables the checkpoint may lack.

    Returns:
      The plan, bound to the variables.

    Raises:
      PlanError: shapes or dtypes differ, variables are missing, or a scope matches nothing;
        before any session.
    """
    from finetune.nets import net_variables

    variables = list(variables)
    described = net_variables(variables)
    if checkpoint is None:
        made = make_plan(described, None, trainable=trainable, exclude=exclude)
    else:
        with checkpoints.open(checkpoint) as saved:
            made = make_plan(
                described,
                saved.variables,
                trainable=trainable,
                exclude=exclude,
                allow_missing=allow_missing,
                checkpoint=str(checkpoint),
            )
    made.require_sound()
    return BoundPlan(made, variables, None if checkpoint is None else Path(checkpoint))


@dataclass
class BoundPlan:
    """A plan and the TensorFlow variables it is about.

    Attributes:
      plan: the partition.
      variables: the TensorFlow variables, in the plan's order.
      checkpoint: where restored values come from, a path or the values by name, or None.
      digests: SHA-256 of each frozen variable's bytes after `apply`, in hexadecimal.
    """

    plan: Plan
    variables: Sequence[Any]
    checkpoint: Path | Mapping[str, Any] | None
    digests: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def trainable_variables(self) -> list[Any]:
        """What the optimiser gets as var_list, and nothing else."""
        optimised = {variable.name for variable in self.plan.optimised}
        return [variable for variable in self.variables if variable.op.name in optimised]

    @property
    def changing_variables(self) -> list[Any]:
        """What training changes: the trained variables and averages that go with them."""
        frozen = {variable.name for variable in self.plan.frozen}
        return [variable for variable in self.variables if variable.op.name not in frozen]

    def apply(self, session: Any) -> None:
        """Restores, initialises everything else in the graph, then compares with the checkpoint.

        Optimiser slots and counters made after the plan are initialised too. Never run a global
        initialiser afterwards: `verify_frozen` would find it out.

        Raises:
          PlanError: a restored variable does not hold the checkpoint's value.
        """
        from exporters.runtime import load_tensorflow

        v1 = load_tensorflow().compat.v1
        restored = {variable.name for variable in self.plan.restored}
        with session.graph.as_default():
            every = {v.op.name: v for v in [*v1.global_variables(), *self.variables]}
        session.run([v.initializer for name, v in every.items() if name not in restored])
        if self.checkpoint is not None and restored:
            with _opened(self.checkpoint) as saved:
                values = {v.name: restored_value(saved[v.name], v) for v in self.plan.restored}
                load_values(session, every, values)
                self._compare(session, values, "was not restored")
        self.note_frozen(session)

    def verify_frozen(self, session: Any) -> int:
        """Compares every frozen variable, bit for bit, with its value after `apply`.

        Returns:
          How many variables were compared.

        Raises:
          PlanError: some have changed; all are named.
        """
        if not self.digests and self.plan.frozen:
            raise PlanError(
                "The plan was not applied to a session yet.", next_step="plan.apply(session)"
            )
        now = self._digests(session)
        changed = [name for name, digest in self.digests.items() if now.get(name) != digest]
        if changed:
            raise PlanError(
                f"{counted(len(changed), 'frozen variable')} changed:\n{listed(changed)}",
                expected="the values they had after restoring, bit for bit",
                received=f"other values, as in {changed[0]}",
                next_step="Give the optimiser var_list=plan.trainable_variables, build frozen "
                "scopes in inference mode, and run no initialiser after plan.apply(session).",
            )
        return len(now)

    def note_frozen(self, session: Any) -> None:
        """Takes the frozen variables for what they are now: `verify_frozen` compares with that."""
        self.digests = self._digests(session)

    def _digests(self, session: Any) -> dict[str, str]:
        from hashlib import sha256

        frozen = {variable.name for variable in self.plan.frozen}
        variables = [v for v in self.variables if v.op.name in frozen]
        values = read_values(session, variables)
        return {name: sha256(value.tobytes()).hexdigest() for name, value in values.items()}

    def _compare(self, session: Any, expected: Mapping[str, Any], what: str) -> None:
        variables = [v for v in self.variables if v.op.name in expected]
        found = read_values(session, variables)
        wrong = [n for n, v in found.items() if v.tobytes() != np.asarray(expected[n]).tobytes()]
        if wrong:
            raise PlanError(
                f"{counted(len(wrong), 'variable')} with another value than in {self.checkpoint}:\n"
                + listed(f"{name} {what}" for name in wrong)
            )


def _opened(checkpoint: Path | Mapping[str, Any]) -> AbstractContextManager[Mapping[str, Any]]:
    if isinstance(checkpoint, Path):
        opened: AbstractContextManager[Mapping[str, Any]] = checkpoints.open(checkpoint)
        return opened
    return nullcontext(checkpoint)


def restored_value(value: Any, variable: PlannedVariable) -> Any:
    """A checkpoint's value in the dtype of the net's variable."""
    import ml_dtypes

    dtype = ml_dtypes.bfloat16 if variable.dtype == "bfloat16" else variable.dtype
    return np.asarray(value).astype(dtype, copy=False)


def load_values(session: Any, variables: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Sets variables through their initialisers, in one run and without new operations.

    Args:
      session: of the variables' graph.
      variables: name -> TensorFlow variable; may hold more than are set.
      values: name -> value.
    """
    # Outside of a graph's block TensorFlow's tensors cannot be keys.
    with session.graph.as_default():
        initializers = {name: variables[name].initializer for name in values}
        feeds = {operation.inputs[1]: values[name] for name, operation in initializers.items()}
        session.run(list(initializers.values()), feeds)


def read_values(session: Any, variables: Sequence[Any]) -> dict[str, Any]:
    """The values of variables by name, in one run."""
    return dict(zip((v.op.name for v in variables), session.run(list(variables)), strict=True))
