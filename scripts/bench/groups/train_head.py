"""Head training by slimtune, as a step to be timed: features included, nothing kept from before."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def train(dataset: str, checkpoint: str, net: str, epochs: str) -> Callable[[], dict[str, Any]]:
    """The step: a whole call of `train`, from the graph to the report, with an empty cache.

    Args:
      dataset: directory of shards.
      checkpoint: prefix of the net's weights.
      net: name of the net.
      epochs: how often each picture is shown.
    """
    from checkpoints.cache import CACHE_VARIABLE
    from exporters.runtime import load_tensorflow
    from finetune.config import TrainConfig
    from finetune.training.training import train as train_run

    load_tensorflow()

    def run() -> dict[str, Any]:
        directory = Path(tempfile.mkdtemp(dir=Path.cwd()))
        os.environ[CACHE_VARIABLE] = str(directory / "cache")
        config = TrainConfig(
            data=dataset,
            run=str(directory / "run"),
            net=net,
            checkpoint=checkpoint,
            epochs=int(epochs),
            optimizer="rmsprop",
        )
        result = train_run(config)
        shutil.rmtree(directory)
        return {"pictures": result.step * config.batch_size, "loss": result.loss}

    return run
