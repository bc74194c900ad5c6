"""An exported model held against its run, on the pictures that were evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from checkpoints.errors import RunError
from checkpoints.progress import SILENT, Progress
from finetune.evaluating.evaluation import evaluate
from finetune.report.facts import Facts
from finetune.report.pictures import find_data

AGREEMENT = 0.99
"""A model whose first answers agree less often is not the run's."""


def compare_export(
    facts: Facts, model: str | Path, *, trust: bool = False, progress: Progress = SILENT
) -> dict[str, Any]:
    """Runs a run and a model made of it on the same pictures.

    Args:
      facts: the run, evaluated before.
      model: a model file of any form that runs.
      trust: whether ops of the model that reach files, the network or Python may run.
      progress: where it tells how far it is.

    Returns:
      {mode: "pictures", passed, path, pictures, accuracy, top1_agreement, max_abs}; `max_abs` is
      the largest difference of two probabilities. Where pictures have several classes, the two
      agree on one if they say all the same of it.

    Raises:
      RunError: there are no pictures to run on.
    """
    data = find_data(facts)
    if data.dataset is None or facts.evaluated is None:
        raise RunError(
            f"There is nothing to hold {model} against {facts.run.directory} on.",
            expected="a run that was evaluated, and its dataset",
            received=data.problem or "a run without evaluation",
        )
    split = facts.evaluated.split
    ours = evaluate(facts.run.directory, data.dataset, split=split, progress=progress)
    theirs = evaluate(model, data.dataset, split=split, trust=trust, progress=progress)
    agreement = ours.agreement(theirs)
    return {
        "mode": "pictures",
        "passed": agreement >= AGREEMENT,
        "path": str(model),
        "pictures": theirs.count,
        "accuracy": theirs.accuracy,
        "top1_agreement": agreement,
        "max_abs": float(np.abs(ours.probabilities - theirs.probabilities).max()),
    }
