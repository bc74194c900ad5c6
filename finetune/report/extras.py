"""What the page was told beside the run's files, kept inside the page itself.

`report RUN` knows only the run. So that it does not lose what the page already showed (an
export's verification, a comparison, predictions), the page carries these in a comment at its
end, with a hash of the run's files: they are taken over while those are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from finetune.run import Run

BEGIN, END = "<!-- slimtune-report ", " -->"


@dataclass(frozen=True)
class Extras:
    """Additions to the page; None where there is none.

    Attributes:
      model_verification: {mode, passed, max_abs, max_rel, top1_agreement, ...} of an export.
      comparison: {what, accuracy, best_learning_rate, rows: [{name, accuracy}]}.
      predictions: [{path, classes: [{label, probability}]}].
    """

    model_verification: Mapping[str, Any] | None = None
    comparison: Mapping[str, Any] | None = None
    predictions: Sequence[Mapping[str, Any]] | None = None

    def or_kept(self, run: Run) -> Extras:
        """These, and in the place of what is None what the run's present page holds."""
        if None not in (self.model_verification, self.comparison, self.predictions):
            return self
        kept = _read(run)
        given = {name: value for name, value in vars(self).items() if value is not None}
        return Extras(**{**vars(kept), **given})

    def comment(self, run: Run) -> str:
        """The comment that goes to the end of the page."""
        stored = {"state": _state(run), **asdict(self)}
        text = json.dumps(stored, default=_plain)
        # In JSON these signs stand inside of strings only; without them nothing ends a comment.
        return BEGIN + text.replace("<", "\\u003c").replace(">", "\\u003e") + END


def _read(run: Run) -> Extras:
    try:
        page = run.report_file.read_text(encoding="utf-8")
        stored = json.loads(page.rpartition(BEGIN)[2].rpartition(END)[0])
        if stored.pop("state") == _state(run):
            return Extras(**stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        # No page, or one of another hand: there is nothing to keep.
        pass
    return Extras()


def _state(run: Run) -> str:
    digest = sha256()
    for file in (run.config_file, run.plan_file, run.evaluation_file):
        data = file.read_bytes() if file.is_file() else b""
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
