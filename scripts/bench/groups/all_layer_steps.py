"""Steps of all-layer training by slimtune: on its pipeline, and bare, on one batch that stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

LEARNING_RATE = 1e-4
SEED = 0


def piped(
    dataset: str, checkpoint: str, net: str, size: str, batch: str, precision: str
) -> Callable[[], dict[str, Any]]:
    """The step: one training step on the next batch of the input pipeline.

    Args:
      dataset: directory of shards.
      checkpoint: prefix of all the net's weights, head included.
      net: name of a registered net.
      size: height and width of its input in pixels.
      batch: pictures a step.
      precision: fp32 or bf16.
    """
    return _step(dataset, checkpoint, net, size, batch, precision, is_bare=False)


def bare(
    dataset: str, checkpoint: str, net: str, size: str, batch: str, precision: str
) -> Callable[[], dict[str, Any]]:
    """The step: the same graph on a constant, the pipeline's first batch. Arguments as of `piped`."""
    return _step(dataset, checkpoint, net, size, batch, precision, is_bare=True)


def _step(
    dataset: str, checkpoint: str, net: str, size: str, batch: str, precision: str, is_bare: bool
) -> Callable[[], dict[str, Any]]:
    from checkpoints.published import get_net
    from exporters.runtime import load_tensorflow
    from finetune.config import TrainConfig
    from finetune.datasets.dataset import read_dataset
    from finetune.input_pipeline import training_dataset
    from finetune.preprocessing import Preprocessing
    from finetune.training.graph import build_training_net, build_training_step
    from finetune.training.losses import Target
    from finetune.training.phases import make_phases
    from finetune.training.precision import training_session_config

    v1 = load_tensorflow().compat.v1
    registered, read = get_net(net), read_dataset(Path(dataset))
    classes, count = len(read.classes), read.split("train").count
    config = TrainConfig(
        data=dataset,
        run="",
        trainable=("all",),
        epochs=1,
        batch_size=int(batch),
        learning_rate=LEARNING_RATE,
        dropout=0.0,  # which would make the first losses differ
    )
    (phase,) = make_phases(config, registered, config.total_steps(count), count)

    def batches() -> Any:
        net_input = Preprocessing(registered.preprocessing, int(size))
        return training_dataset(read, net_input, config.batch_size, SEED)

    first = [value.numpy() for value in next(iter(batches()))] if is_bare else None
    with v1.Graph().as_default() as graph:
        v1.set_random_seed(SEED)
        if first is None:
            iterator = v1.data.make_initializable_iterator(batches())
            images, labels = iterator.get_next()
            beginnings = [iterator.initializer]
        else:
            images, labels = map(v1.constant, first)
            beginnings = []
        built = build_training_net(registered, images, classes, phase, config)
        step = v1.train.get_or_create_global_step()
        saver = v1.train.Saver([one for one in v1.global_variables() if one is not step])
        training = build_training_step(
            built, Target(labels, classes), phase, v1.trainable_variables(), config
        )
        session = v1.Session(graph=graph, config=training_session_config(precision))
        session.run([v1.global_variables_initializer(), *beginnings])
        saver.restore(session, checkpoint)
    losses: list[float] = []

    def run() -> dict[str, Any]:
        loss, *_ = session.run(training.fetches)
        losses.append(float(loss))
        return {"pictures": config.batch_size, "first_loss": losses[0], "loss": losses[-1]}

    return run
