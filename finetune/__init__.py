"""Pictures to records, records to batches, nets, training, evaluation, prediction.

Names load their module on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "BoundPlan": "finetune.planning",
    "Evaluation": "finetune.evaluating.scores",
    "MnistResult": "finetune.mnist_cases",
    "Prediction": "finetune.prediction",
    "RunResult": "finetune.training.result",
    "TrainConfig": "finetune.config",
    "calibration_pictures": "finetune.serving",
    "compare": "finetune.evaluating.comparison",
    "features": "finetune.feature_file",
    "evaluate": "finetune.evaluating.evaluation",
    "mnist": "finetune.mnist_cases",
    "partition": "finetune.planning",
    "plan": "finetune.planning",
    "predict": "finetune.prediction",
    "preprocessing_graph": "finetune.serving",
    "train": "finetune.training.training",
    "warm_up_pictures": "finetune.serving",
    "watch": "finetune.evaluating.watching",
    "write_report": "finetune.report",
}

_MODULES = ("data",)
"""Modules whose functions are called by the module's name, as in finetune.data.load."""

__all__ = list(_EXPORTS) + list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"finetune.{name}")
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
