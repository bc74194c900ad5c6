"""One call of train, from the graph to the last checkpoint."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import replace
from typing import Any

from checkpoints.errors import RunError
from checkpoints.files import write_json, write_text
from checkpoints.progress import Progress
from checkpoints.scopes import require_matches
from exporters.runtime import load_tensorflow, reason_of
from finetune.config import TrainConfig, steps_an_epoch
from finetune.datasets.dataset import Dataset
from finetune.evaluating.evaluation import evaluate
from finetune.nets.build import net_variables
from finetune.pipeline_errors import data_errors
from finetune.planning import BoundPlan, plan_phases
from finetune.preprocessing import Preprocessing
from finetune.run import Run
from finetune.signature import write_inference_graph
from finetune.training.checkpointing import RunSaver
from finetune.training.class_weights import find_class_weights
from finetune.training.first_pictures import log_training_sheet
from finetune.training.graph import (
    TrainingGraph,
    build_training_net,
    build_training_step,
    head_of,
)
from finetune.training.head_start import start_head
from finetune.training.losses import Target
from finetune.training.metrics_log import MetricsLog
from finetune.training.option_checks import read_rate_factors
from finetune.training.phase_start import PhaseStart
from finetune.training.phases import Phase, make_phases
from finetune.training.result import RunResult
from finetune.training.stopping import evaluations_without_better
from finetune.trunk.batches import DISTORTED, StepBatches
from finetune.trunk.held_out import evaluate_on_features
from finetune.weights import Weights
from finetune.workers.workers import Workers

EVALUATIONS = 5
"""How often a run evaluates by default, at most once an epoch."""

LOG_SECONDS = 2.0
"""Metrics are logged at the first step, at evaluations, and in between at most so often."""


class Trainer:
    """One call of train, from the graph to the last checkpoint."""

    def __init__(
        self,
        run: Run,
        config: TrainConfig,
        dataset: Dataset,
        weights: Weights,
        steps: int,
        first: int,
        workers: Workers,
        progress: Progress,
    ) -> None:
        """Nothing is built yet.

        Args:
          run: whose files the chief writes; of other processes a directory that is forgotten.
          config: the options.
          dataset: the pictures.
          weights: the net, and what it starts from.
          steps: of the whole run.
          first: how many of them are done.
          workers: who trains together.
          progress: told what happens.
        """
        self.run = run
        self.config = config
        self.dataset = dataset
        self.weights = weights
        self.steps = steps
        self.workers = workers
        self.progress = progress
        self.classes = len(dataset.classes)
        self.pictures = dataset.splits["train"].count
        self.phases = make_phases(
            config, weights.net, steps, self.pictures, is_restored=weights.is_restored
        )
        self.class_weights = find_class_weights(config.class_weights, dataset)
        size = config.image_size or weights.image_size
        self.preprocessing = Preprocessing(weights.preprocessing, size)
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.seconds = 0.0
        self.step = first
        self.waited = 0
        self.is_beginning = True

    def train(self) -> RunResult:
        """Runs what is left of each phase, and proves what it froze unchanged."""
        first = self.step
        # A run that was ended after its last step may lack its last evaluation.
        left = [phase for phase in self.phases if phase.last > first] or [self.phases[-1]]
        verified = 0
        for phase in left:
            try:
                verified = self._train_phase(phase)
            except load_tensorflow().errors.OpError as error:
                raise self.workers.loss_behind() or _step_failed(error, self.run) from error
            if self._has_stopped():
                break
        self.workers.part_ways()
        self.progress.say(f"{verified} frozen variables are bit-equal to what they started from.")
        done = (self.step - first) * self.config.batch_size
        return RunResult(
            run=str(self.run.directory),
            step=self.step,
            loss=self.loss,
            accuracy=self.accuracy,
            best_accuracy=self.run.best_accuracy(),
            totals=self.bound.plan.totals(),
            frozen_verified=verified,
            pictures_per_second=done / self.seconds if self.seconds else None,
        )

    def _train_phase(self, phase: Phase) -> int:
        """Builds the phase's graph, runs its steps from where the run is, compares the frozen."""
        tf = load_tensorflow()
        v1 = tf.compat.v1
        with tf.Graph().as_default() as graph:
            # What is dropped differs from process to process; first values are the chief's.
            v1.set_random_seed(self.config.seed + self.workers.index)
            self.batches = batches = StepBatches(
                self.dataset,
                self.preprocessing,
                self.config,
                self.step,
                self.progress,
                self.workers,
            )
            with self.progress.task(f"Building {self.weights.net.name}", None):
                self.bound, step_graph = self._build(phase, batches.images, batches.labels)
                if self.is_beginning:
                    self._write_beginnings()
                    self.is_beginning = False
            self.saver = RunSaver(self.run, self.config.keep)
            self.log = MetricsLog(self.run, graph)
            self.saver.note_graph()
            agreeing = self.workers.agreeing(v1.global_variables())
            batches.cut_before(
                step_graph.fetches,
                [step_graph.step, *self.bound.changing_variables],
                self.bound.variables,
                step_graph.bottleneck,
            )
        if self.step == 0:
            is_plain = batches.on_features and (self.config.views or 1) == 1
            augment = self.config.augment or ("none" if is_plain else DISTORTED)
            log_training_sheet(
                self.log, self.dataset, self.preprocessing, augment, self.config.seed
            )
        start = PhaseStart(
            self.run,
            self.phases,
            phase,
            self.bound,
            self.saver,
            step_graph,
            agreeing,
            self.workers,
            self.progress,
        )
        with closing(self.log), closing(batches):
            session = start.open(
                graph,
                first=self.step,
                batches=batches,
                precision=self.config.precision,
                net=self.weights.net.name,
            )
            with session:
                with data_errors(self.dataset, self.progress):
                    if self.step == 0:
                        if self.workers.is_chief:
                            self._start_head(session, step_graph, batches)
                        session.run(agreeing)
                    self._evaluate_if_missing()
                    self._loop(session, step_graph, phase, batches)
                return self.bound.verify_frozen(session)

    def _start_head(self, session: Any, step_graph: TrainingGraph, batches: StepBatches) -> None:
        """Starts a linear head better than at random, and its moving average with it."""
        if self.dataset.multi_label:
            # The scale of such a start is fitted to one class a picture.
            return
        started = start_head(session, batches, self.bound, self.config, self.progress)
        if started and step_graph.average is not None:
            step_graph.average.begin(session)

    def _build(self, phase: Phase, images: Any, labels: Any) -> tuple[BoundPlan, TrainingGraph]:
        """The net, its plan, checked, and the step that changes what the plan says."""
        v1 = load_tensorflow().compat.v1
        config = self.config
        net = self.weights.net
        built = build_training_net(net, images, self.classes, phase, config)
        step = v1.train.get_or_create_global_step()
        variables = [variable for variable in v1.global_variables() if variable is not step]

        plans = plan_phases(
            net_variables(variables),
            self.weights,
            [(f"step {one.first + 1}", one.trainable, one.updating) for one in self.phases],
            config.exclude,
            config.allow_missing,
        )
        plan = plans[phase.number - 1]
        plan.require_sound()
        require_matches(
            list(read_rate_factors(config.learning_rate_factors)),
            [variable.name for variable in plans[-1].optimised],
            "--learning-rate-factors",
        )
        bound = BoundPlan(plan, variables, self.weights.restored_from)
        summary, *more = plan.lines()
        self.progress.say(f"{net.name}: {summary}")
        if self.is_beginning:
            for line in more:
                self.progress.say(line)
            for one in self.phases:
                self.progress.say(one.describe(len(self.phases)))
        target = Target(labels, self.classes, self.class_weights)
        return bound, build_training_step(
            built, target, phase, bound.trainable_variables, config, self.workers
        )

    def _write_beginnings(self) -> None:
        """What a run directory holds before its first checkpoint; config.json makes it a run."""
        run = self.run
        run.directory.mkdir(parents=True, exist_ok=True)
        if self.config.overwrite:
            run.clear()
        run.write_config(self.config, self.steps, self.dataset.content_hash)
        write_text(run.labels_file, "".join(f"{name}\n" for name in self.dataset.classes))
        write_inference_graph(
            run,
            self.weights,
            self.dataset,
            self.preprocessing,
            replace(head_of(self.config), multi_label=self.dataset.multi_label),
        )

    def _loop(
        self, session: Any, step_graph: TrainingGraph, phase: Phase, batches: StepBatches
    ) -> None:
        unit = "steps on features" if batches.on_features else "steps"
        eval_every = self._eval_every()
        first = self.step
        began_with = self.seconds
        saved_at = logged_at = time.monotonic()
        with self.progress.task("Training", phase.last - first, unit) as task:
            for step in range(first + 1, phase.last + 1):
                if self._has_stopped():
                    return
                began = time.monotonic()
                try:
                    loss, accuracy, rate = session.run(step_graph.fetches, batches.feeds())
                except KeyboardInterrupt:
                    if self.workers.is_whole:
                        self._save_interrupted(session, step_graph, first)
                    raise
                self.step = step
                now = time.monotonic()
                self.seconds += now - began
                self.loss = float(loss)
                if not math.isfinite(self.loss):
                    raise RunError(
                        f"The loss at step {step} is no number.",
                        received=self.loss,
                        next_step=f"Lower --learning-rate ({phase.schedule.first:g}); "
                        + (
                            f"the checkpoint of step {self.run.step()} is kept."
                            if self.run.latest()
                            else "no checkpoint was written yet."
                        ),
                    )
                evaluates = step % eval_every == 0 or step == phase.last
                if step == first + 1 or evaluates or now - logged_at >= LOG_SECONDS:
                    logged_at = now
                    rate_seen = (
                        (step - first) * self.config.batch_size / (self.seconds - began_with)
                    )
                    self.log.write(
                        step,
                        loss=self.loss,
                        batch_accuracy=float(accuracy),
                        learning_rate=float(rate),
                        pictures_per_second=rate_seen,
                    )
                    task.note(f"loss {self.loss:.3f}, {rate_seen:.0f} pictures/s")
                task.advance()
                is_due = evaluates or now - saved_at >= self.config.save_seconds
                if is_due and self.workers.is_chief:
                    self.saver.save(session, step)
                    saved_at = time.monotonic()
                if evaluates:
                    self.log.write_variables(step, session, self.bound.trainable_variables)
                    self._evaluate(step)

    def _save_interrupted(self, session: Any, step_graph: TrainingGraph, first: int) -> None:
        """Saves what is done; the step that was under way may be done too."""
        step = int(session.run(step_graph.step))
        if step > first and self.workers.is_chief:
            self.saver.save(session, step)
            self.progress.say(f"Saved step {step}; --resume goes on from there.")

    def _eval_every(self) -> int:
        """Five evaluations in a run unless told otherwise, none before an epoch has passed."""
        if self.config.eval_every is not None:
            return self.config.eval_every
        epoch = steps_an_epoch(self.pictures, self.config.batch_size)
        return max(epoch, math.ceil(self.steps / EVALUATIONS))

    def _has_stopped(self) -> bool:
        """Whether --patience evaluations in a row were no better than the best before them."""
        return self.config.patience is not None and self.waited >= self.config.patience

    def _evaluate_if_missing(self) -> None:
        """A run that was ended between a checkpoint and its evaluation makes up for it."""
        step = self.step
        ends = {phase.last for phase in self.phases}
        if step == 0 or (step % self._eval_every() and step not in ends):
            return
        scores = [entry for entry in self.run.read_metrics() if entry.get("split") == "val"]
        found = None
        if scores and scores[-1].get("step") == step:
            found = scores[-1].get("accuracy"), evaluations_without_better(self.run)
        found = self.workers.share(found)
        if found is None:
            self._evaluate(step)
        else:
            self.accuracy, self.waited = found

    def _evaluate(self, step: int) -> None:
        """The chief scores the checkpoint just written; all know whether to go on."""
        if self.workers.is_chief:
            self._score(step)
        self.accuracy, self.waited = self.workers.share([self.accuracy, self.waited])

    def _score(self, step: int) -> None:
        """Scores the newest checkpoint on the validation split, and keeps the best."""
        validation = self.dataset.splits.get("val")
        if validation is None or validation.count == 0:
            return
        found = None
        if step < self.steps:
            found = evaluate_on_features(self.run, self.dataset, "val", self.batches)
        # The last evaluation is of the whole net, as everybody will run it.
        found = found or evaluate(
            self.run.directory, self.dataset, split="val", progress=self.progress
        )
        self.accuracy = found.accuracy
        best = self.run.best_accuracy()
        latest = self.run.latest()
        if latest is not None and (best is None or found.accuracy > best):
            self.run.keep_best(latest, found.accuracy)
        write_json(self.run.evaluation_file, found.as_json(pictures=True))
        # The last of what an evaluation leaves behind: with it, it need not be done again.
        self.log.write(step, split="val", accuracy=found.accuracy, count=found.count)
        self.progress.say(
            f"Step {step} of {self.steps}: {found.accuracy:.1%} of {found.count} validation "
            "pictures right."
        )
        self.waited = evaluations_without_better(self.run)
        if self._has_stopped() and step < self.steps:
            self.progress.say(
                f"Stopped: {self.waited} evaluations without a better one than "
                f"{self.run.best_accuracy():.1%}, which is kept in {Run.BEST}/."
            )


def _step_failed(error: Any, run: Run) -> RunError:
    """What TensorFlow said of a step that failed: out of memory, out of disk, ..."""
    return RunError(
        "A training step failed in TensorFlow.",
        received=reason_of(error.message),
        next_step="Where memory ran out, lower --batch-size"
        + (f"; --resume goes on from step {run.step()}." if run.latest() else "."),
    )
