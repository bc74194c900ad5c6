"""One call of train, from the graph to the last checkpoint."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

from checkpoints import family
from checkpoints.errors import RunError
from checkpoints.files import write_json, write_text
from checkpoints.progress import Progress
from exporters.runtime import load_tensorflow, session_config
from finetune import schedules
from finetune.config import TrainConfig, steps_an_epoch
from finetune.dataset import Dataset
from finetune.evaluation import evaluate
from finetune.input_pipeline import find_data_error, training_dataset
from finetune.metrics_log import MetricsLog
from finetune.nets.build import net_variables
from finetune.planning import BoundPlan, default_trainable, plan_variables
from finetune.preprocessing import Preprocessing
from finetune.run import Run, read_json
from finetune.signature import write_inference_graph
from finetune.training_graph import TrainingGraph, build_training_net, build_training_step
from finetune.weights import Weights

EVALUATIONS = 5
"""How often a run evaluates by default, at most once an epoch."""

LOG_SECONDS = 2.0
"""Metrics are logged at the first step, at evaluations, and in between at most so often."""

SAVE_SECONDS = 600.0
"""A checkpoint is written at each evaluation, and after so many seconds without one."""


@dataclass(frozen=True)
class RunResult:
    """What a training run came to.

    Attributes:
      run: the run directory.
      step: steps done in all.
      loss: of the last step; None where nothing was left to do.
      accuracy: on the validation split after the last step; None without such a split.
      best_accuracy: of the checkpoint in best/.
      totals: counts of the plan.
      frozen_verified: how many frozen variables were proved bit-equal after training.
      pictures_per_second: over the steps of this call, evaluation and saving apart.
      finished_before: whether the run was finished already and nothing was done.
    """

    run: str
    step: int
    loss: float | None
    accuracy: float | None
    best_accuracy: float | None
    totals: dict[str, int]
    frozen_verified: int
    pictures_per_second: float | None
    finished_before: bool = False

    def as_json(self) -> dict[str, Any]:
        """What `train --json` prints."""
        return asdict(self)


class Trainer:
    """One call of train, from the graph to the last checkpoint."""

    def __init__(
        self,
        run: Run,
        config: TrainConfig,
        dataset: Dataset,
        weights: Weights,
        steps: int,
        progress: Progress,
    ) -> None:
        self.run = run
        self.config = config
        self.dataset = dataset
        self.weights = weights
        self.steps = steps
        self.progress = progress
        self.classes = len(dataset.classes)
        self.pictures = dataset.splits["train"].count
        self.trainable = default_trainable(weights.net, config.trainable)
        size = config.image_size or weights.image_size
        self.preprocessing = Preprocessing(weights.preprocessing, size)
        self.loss: float | None = None
        self.accuracy: float | None = None
        self.seconds = 0.0

    def train(self) -> RunResult:
        """Builds the graph, runs what is left of the steps, and proves the frozen unchanged."""
        tf = load_tensorflow()
        v1 = tf.compat.v1
        first = self.run.step() if self.config.resume else 0
        with tf.Graph().as_default() as graph:
            v1.set_random_seed(self.config.seed)
            batches = training_dataset(
                self.dataset,
                self.preprocessing,
                self.config.batch_size,
                self.config.seed,
                augment=self.config.augment,
                start_step=first,
            )
            iterator = v1.data.make_initializable_iterator(batches)
            images, labels = iterator.get_next()
            with self.progress.task(f"Building {self.weights.net.name}", None):
                self.bound, step_graph = self._build(images, labels)
                self._write_beginnings()
            self.saver = v1.train.Saver(max_to_keep=self.config.keep, save_relative_paths=True)
            self.log = MetricsLog(self.run, graph)
        with v1.Session(graph=graph, config=session_config()) as session:
            session.run(iterator.initializer)
            self._begin(session, first)
            try:
                self._loop(session, step_graph, first)
            except tf.errors.OpError as error:
                raise find_data_error(error) or _step_failed(error) from error
            verified = self.bound.verify_frozen(session)
        self.log.close()
        self.progress.say(f"{verified} frozen variables are bit-equal to what they started from.")
        done = (self.steps - first) * self.config.batch_size
        return RunResult(
            run=str(self.run.directory),
            step=self.steps,
            loss=self.loss,
            accuracy=self.accuracy,
            best_accuracy=self.run.best_accuracy(),
            totals=self.bound.plan.totals(),
            frozen_verified=verified,
            pictures_per_second=done / self.seconds if self.seconds else None,
        )

    def _build(self, images: Any, labels: Any) -> tuple[BoundPlan, TrainingGraph]:
        """The net, its plan, checked, and the step that changes what the plan says."""
        v1 = load_tensorflow().compat.v1
        config = self.config
        net = self.weights.net
        built = build_training_net(net, images, self.classes, self.trainable, config.dropout)
        variables = v1.global_variables()
        plan = plan_variables(
            net_variables(variables),
            self.weights,
            config.trainable,
            config.exclude,
            config.allow_missing,
        )
        plan.require_sound()
        bound = BoundPlan(plan, variables, self.weights.path)
        decay_steps = config.decay_steps or 2 * steps_an_epoch(self.pictures, config.batch_size)
        totals = plan.totals()
        self.progress.say(
            f"{net.name}: {totals['restored']} variables restored from "
            f"{plan.checkpoint or 'nothing'}, {totals['initialised']} initialised; "
            f"{totals['trainable_parameters']:,} of {totals['parameters']:,} parameters train."
        )
        for note in plan.notes:
            self.progress.say(note)
        self.progress.say(
            schedules.describe(
                config.schedule,
                config.first_learning_rate,
                self.steps,
                decay_steps,
                config.decay_rate,
                config.staircase,
            )
        )
        step_graph = build_training_step(
            built,
            labels,
            self.classes,
            self.trainable,
            bound.trainable_variables,
            config,
            decay_steps,
        )
        return bound, step_graph

    def _write_beginnings(self) -> None:
        """What a run directory holds before its first checkpoint; config.json makes it a run."""
        run = self.run
        run.directory.mkdir(parents=True, exist_ok=True)
        if self.config.overwrite:
            run.clear()
        run.write_config(self.config, self.steps)
        write_text(run.labels_file, "".join(f"{name}\n" for name in self.dataset.classes))
        write_inference_graph(run, self.weights, self.dataset, self.preprocessing)

    def _begin(self, session: Any, first: int) -> None:
        """Applies the plan, or restores the run's own checkpoint and checks the frozen part."""
        run = self.run
        if first == 0:
            self.bound.apply(session)
            value = self.bound.plan.as_json()
            for variable in value["variables"]:
                variable["sha256"] = self.bound.digests.get(variable["name"])
            write_json(run.plan_file, {"net": self.weights.net.name, **value})
            run.forget_metrics_after(0)
            return
        latest = run.latest()
        self.saver.restore(session, str(latest))
        state = family.read_state(run.directory)
        if state is not None:
            self.saver.recover_last_checkpoints([str(path) for path in state.all_paths])
        stored = read_json(run.plan_file)["variables"]
        self.bound.digests = {v["name"]: v["sha256"] for v in stored if v.get("sha256")}
        self.bound.verify_frozen(session)
        run.forget_metrics_after(first)
        self.progress.say(f"Going on at step {first} of {self.steps}.")

    def _loop(self, session: Any, step_graph: TrainingGraph, first: int) -> None:
        fetches = (
            step_graph.train,
            step_graph.accuracy,
            step_graph.learning_rate,
        )
        eval_every = self._eval_every()
        saved_at = logged_at = time.monotonic()
        with self.progress.task("Training", self.steps - first, "steps") as task:
            for step in range(first + 1, self.steps + 1):
                began = time.monotonic()
                try:
                    loss, accuracy, rate = session.run(fetches)
                except KeyboardInterrupt:
                    if step > first + 1:
                        self._save(session, step - 1)
                        self.progress.say(f"Saved step {step - 1}; --resume goes on from there.")
                    raise
                now = time.monotonic()
                self.seconds += now - began
                self.loss = float(loss)
                if not math.isfinite(self.loss):
                    raise RunError(
                        f"The loss at step {step} is no number.",
                        received=self.loss,
                        next_step="Lower --learning-rate"
                        f" ({self.config.first_learning_rate:g}); the last good checkpoint is kept.",
                    )
                evaluates = step % eval_every == 0 or step == self.steps
                if step == first + 1 or evaluates or now - logged_at >= LOG_SECONDS:
                    logged_at = now
                    rate_seen = (step - first) * self.config.batch_size / self.seconds
                    self.log.write(
                        step,
                        loss=self.loss,
                        batch_accuracy=float(accuracy),
                        learning_rate=float(rate),
                        pictures_per_second=rate_seen,
                    )
                    task.note(f"loss {self.loss:.3f}, {rate_seen:.0f} pictures/s")
                task.advance()
                if evaluates or now - saved_at >= SAVE_SECONDS:
                    self._save(session, step)
                    saved_at = time.monotonic()
                if evaluates:
                    self._evaluate(step)

    def _eval_every(self) -> int:
        """Five evaluations in a run unless told otherwise, none before an epoch has passed."""
        if self.config.eval_every is not None:
            return self.config.eval_every
        epoch = steps_an_epoch(self.pictures, self.config.batch_size)
        return max(epoch, math.ceil(self.steps / EVALUATIONS))

    def _save(self, session: Any, step: int) -> None:
        self.saver.save(session, str(self.run.prefix), global_step=step)

    def _evaluate(self, step: int) -> None:
        """Scores the checkpoint just written on the validation split, and keeps the best."""
        validation = self.dataset.splits.get("val")
        if validation is None or validation.count == 0:
            return
        found = evaluate(self.run.directory, self.dataset, split="val", progress=self.progress)
        self.accuracy = found.accuracy
        self.log.write(step, split="val", accuracy=found.accuracy, count=found.count)
        self.progress.say(
            f"Step {step} of {self.steps}: {found.accuracy:.1%} of {found.count} validation "
            "pictures right."
        )
        best = self.run.best_accuracy()
        latest = self.run.latest()
        if latest is not None and (best is None or found.accuracy > best):
            self.run.keep_best(latest, found.accuracy)
        if step == self.steps:
            write_json(self.run.evaluation_file, found.as_json(pictures=True))


def _step_failed(error: Any) -> RunError:
    """What TensorFlow said of a step that failed: out of memory, out of disk, ..."""
    return RunError(
        "A training step failed in TensorFlow.",
        received=error.message.strip().split("\n")[0],
        next_step="Where memory ran out, lower --batch-size; --resume goes on from the last "
        "checkpoint.",
    )
