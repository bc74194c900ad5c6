"""How a phase begins: fresh, from the checkpoint of the phase before it, or where it was left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.errors import RunError
from checkpoints.files import write_json
from checkpoints.progress import Progress
from exporters.runtime import load_tensorflow
from finetune.planning import BoundPlan, load_values
from finetune.report.facts import read_plan
from finetune.run import Run, read_object
from finetune.training import precision as precisions
from finetune.training.checkpointing import RunSaver
from finetune.training.graph import TrainingGraph
from finetune.training.phases import Phase
from finetune.trunk.batches import StepBatches
from finetune.workers.workers import Workers


class PhaseStart:
    """Opens the session of a phase with every variable at the value it has to begin with."""

    def __init__(
        self,
        run: Run,
        phases: Sequence[Phase],
        phase: Phase,
        bound: BoundPlan,
        saver: RunSaver,
        graph: TrainingGraph,
        agreeing: Any,
        workers: Workers,
        progress: Progress,
    ) -> None:
        """Nothing is opened yet.

        Args:
          run: the run.
          phases: all of them.
          phase: the one that begins.
          bound: its plan.
          saver: of its variables.
          graph: its step.
          agreeing: an operation that gives every process the chief's variables.
          workers: who trains together.
          progress: told what happens.
        """
        self._run = run
        self._phases = phases
        self._phase = phase
        self._bound = bound
        self._saver = saver
        self._graph = graph
        self._agreeing = agreeing
        self._workers = workers
        self._progress = progress

    def open(
        self,
        graph: Any,
        *,
        first: int,
        batches: StepBatches,
        precision: str,
        net: str,
    ) -> Any:
        """A session, its precision chosen, its batches at their first one.

        Args:
          graph: the tf.Graph.
          first: how many steps of the run are done.
          batches: what the steps get.
          precision: auto, fp32 or bf16.
          net: name of the net, for plan.json.
        """
        chosen = precision
        if first > self._phase.first:
            chosen = self._workers.share(self._stored_precision()) or precision
        session = self._session(graph, "fp32" if chosen == "auto" else chosen, first)
        self._agree(session)
        self._restart(batches, session)
        if chosen == "auto":
            session, chosen = self._agreed(session, graph, first, batches)
        if first == self._phase.first:
            self._write_plan(net, chosen)
        self._run.forget_metrics_after(first)
        if first and first == self._phase.first:
            self._progress.say(f"Phase {self._phase.number} of {len(self._phases)} begins.")
        elif first:
            self._progress.say(f"Going on at step {first} of {self._phases[-1].last}.")
        return session

    def _session(self, graph: Any, precision: str, first: int) -> Any:
        config = precisions.training_session_config(precision)
        session = self._workers.session(graph, config)
        with graph.as_default():
            self._load(session, first)
        return session

    def _restart(self, batches: StepBatches, session: Any) -> None:
        with session.graph.as_default():
            batches.restart(session)

    def _agree(self, session: Any) -> None:
        """Gives all processes the chief's variables."""
        session.run(self._agreeing)
        if not self._workers.is_chief:
            with session.graph.as_default():
                self._bound.note_frozen(session)

    def _agreed(
        self, session: Any, graph: Any, first: int, batches: StepBatches
    ) -> tuple[Any, str]:
        """The session of the precision that the chief chose, and the precision."""
        chosen = "fp32"
        if self._workers.is_chief:
            session, chosen = self._chosen(session, graph, first, batches)
        chosen = self._workers.share(chosen)
        if chosen != "fp32":
            if not self._workers.is_chief:
                session.close()
                session = self._session(graph, chosen, first)
                self._restart(batches, session)
            self._agree(session)
        return session, chosen

    def _chosen(
        self, session: Any, graph: Any, first: int, batches: StepBatches
    ) -> tuple[Any, str]:
        """The session of the faster precision that agrees, and the precision."""
        sessions = {"fp32": session}
        step = self._graph

        def timed(name: str) -> precisions.Trial:
            one = sessions[name]
            return precisions.time_steps(one, step.loss, step.logits, step.gradients, batches.feeds)

        def try_bfloat16() -> precisions.Trial:
            sessions["bf16"] = self._session(graph, "bf16", first)
            self._restart(batches, sessions["bf16"])
            return timed("bf16")

        reason = precisions.why_float32()
        if reason is not None:
            self._progress.say(reason)
            return session, "fp32"
        with self._progress.task("Choosing the precision", None):
            fp32 = timed("fp32")
            name, why = precisions.choose(fp32, try_bfloat16, self._phase.last - first)
        self._progress.say(why)
        for other, opened in sessions.items():
            if other != name:
                opened.close()
        batches.restart(sessions[name])
        return sessions[name], name

    def _load(self, session: Any, first: int) -> None:
        """Gives every variable its value, and checks that the frozen are what they were."""
        if first == 0:
            self._bound.apply(session)
            if self._graph.average is not None:
                self._graph.average.begin(session)
            return
        if not self._workers.is_chief:
            # The chief's values come over these.
            v1 = load_tensorflow().compat.v1
            session.run(v1.global_variables_initializer())
            return
        latest = self._run.latest()
        if latest is None:
            raise RunError(f"{self._run.directory} holds no checkpoint to go on from.")
        if first == self._phase.first:
            self._carry_over(session, latest)
        else:
            self._saver.restore(session, latest)
        frozen = {variable.name for variable in self._bound.plan.frozen}
        self._bound.digests = {
            variable.name: variable.sha256
            for variable in read_plan(self._run.plan_file).variables
            if variable.sha256 and variable.name in frozen
        }
        self._bound.verify_frozen(session)

    def _carry_over(self, session: Any, checkpoint: Path) -> None:
        """Takes net, step and averages of the phase before; optimiser slots begin anew."""
        v1 = load_tensorflow().compat.v1
        with session.graph.as_default():
            variables = {variable.op.name: variable for variable in v1.global_variables()}
        session.run([variable.initializer for variable in variables.values()])
        with checkpoints.open(checkpoint) as saved:
            kept = [name for name in variables if name in saved and saved.role(name) != "slot"]
            load_values(session, variables, {name: saved[name] for name in kept})
        if self._graph.average is not None:
            self._graph.average.begin(session, known=kept)

    def _stored_precision(self) -> str | None:
        with suppress(RunError):
            stored = read_object(self._run.plan_file)
            if stored.get("phase") == self._phase.number:
                found = stored.get("precision")
                return found if found in ("fp32", "bf16") else None
        return None

    def _write_plan(self, net: str, precision: str) -> None:
        """plan.json: the partition of the phase that runs, and what all phases train."""
        value = self._bound.plan.as_json()
        for variable in value["variables"]:
            variable["sha256"] = self._bound.digests.get(variable["name"])
        for entry, phase in zip(value["phases"], self._phases, strict=True):
            entry |= {
                "first": phase.first,
                "last": phase.last,
                "learning_rate": phase.schedule.first,
            }
        about = {"net": net, "phase": self._phase.number, "precision": precision}
        write_json(self._run.plan_file, {**about, **value})
