"""When training stops early: from what a run's files say, so that a resumed run stops alike."""

from __future__ import annotations

from finetune.run import Run


def evaluations_without_better(run: Run) -> int:
    """How many evaluations came after the one of the best checkpoint."""
    best = run.best_step()
    scores = (entry for entry in run.read_metrics() if entry.get("split") == "val")
    return sum(1 for entry in scores if entry.get("step", 0) > best)
