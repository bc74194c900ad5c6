"""What a verification found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

VerifyMode = Literal["auto", "structure", "run", "none"]


@dataclass(frozen=True)
class Verification:
    """The outcome of comparing an output with its source.

    Attributes:
      mode: "structure" (node by node and byte by byte), "run" (same inputs, answers compared)
        or "none".
      passed: whether the output is what its source says; None where nothing was compared.
      max_abs: the largest difference of two answers; 0 where the structure was proved, since
        nothing differs then; None where nothing was compared.
      max_rel: the largest difference in proportion to the source's answer, likewise.
      top1_agreement: the share of rows, 0 to 1, whose largest entry is the same one, likewise;
        None also where no output has rows of several entries.
    """

    mode: Literal["structure", "run", "none"]
    passed: bool | None
    max_abs: float | None = None
    max_rel: float | None = None
    top1_agreement: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The object that stands under "verification"."""
        return asdict(self)


NOT_VERIFIED = Verification("none", None)
PROVED = Verification("structure", True, 0.0, 0.0, 1.0)
