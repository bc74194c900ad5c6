"""The one tree of errors. Every fault a user can cause ends in one of these, never in a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from checkpoints.temporary_names import without_temporary_names

LISTED_PROBLEMS = 10
"""How many of several problems a message lists before it says "and N more"."""


class SlimtuneError(Exception):
    """What failed, what was expected, what was received, and what to do next.

    Attributes:
      message: what failed, naming the file, record or variable.
      expected: what would have been right, or None where the message says it.
      received: what was found instead, or None.
      next_step: what to type or change, or None.
      exit_code: what the command line exits with.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        received: object = None,
        next_step: str | None = None,
    ) -> None:
        """Keeps the four parts apart, so that --json can print them apart."""
        self.message = without_temporary_names(message)
        self.expected = expected
        self.received = None if received is None else without_temporary_names(str(received))
        self.next_step = next_step
        super().__init__(self.__str__())

    def __str__(self) -> str:
        lines = [self.message]
        if self.expected is not None:
            lines.append(f"Expected: {self.expected}")
        if self.received is not None:
            lines.append(f"Received: {self.received}")
        if self.next_step is not None:
            lines.append(f"Next: {self.next_step}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, str | None]:
        """The object that stands under "error" when a verb fails with --json."""
        return {
            "type": type(self).__name__,
            "message": self.message,
            "expected": self.expected,
            "received": self.received,
            "next": self.next_step,
        }


class UsageError(SlimtuneError):
    """The words of the command line do not fit together."""

    exit_code = 2


class NotFoundError(SlimtuneError):
    """A file, variable, scope, node or name that was asked for is not there."""


class OutputExistsError(SlimtuneError):
    """The output is already there and --overwrite was not given."""


class AccessError(SlimtuneError, OSError):
    """The operating system does not read or write a file.

    It is the OSError too that it came from, with its number and text.
    """

    def __init__(self, message: str, error: OSError, **parts: str | None) -> None:
        """Takes over what the operating system said."""
        reason = error.strerror or str(error)
        super().__init__(message, received=reason, **parts)
        self.errno, self.strerror = error.errno, reason


class InputError(AccessError):
    """A file cannot be read: its disk fails, or it is no ordinary one."""


class OutputError(AccessError):
    """An output cannot be written: no room, no permission, or something else in the way."""


class UnsupportedError(SlimtuneError):
    """The file is sound and is something slimtune does not handle."""


class BrokenFileError(SlimtuneError):
    """A file is cut, damaged or not what its name says."""


class CheckpointError(BrokenFileError):
    """A checkpoint's files contradict each other or their own checksums."""


class PlanError(SlimtuneError):
    """Net and checkpoint do not fit, or a scope matches nothing."""


class DownloadError(SlimtuneError):
    """A download failed, or what came is not what was asked for."""


class GraphError(SlimtuneError):
    """A graph cannot be read, rewritten or run as asked."""


class VerificationError(SlimtuneError):
    """The written file is not what its source says."""


class DataError(SlimtuneError):
    """Pictures, records or labels are not what was said of them."""


class RunError(SlimtuneError):
    """A run directory is unfinished, finished, locked or not a run."""


def listed(problems: Iterable[object], limit: int = LISTED_PROBLEMS) -> str:
    """Indented lines, one a problem; the first `limit`, then "and N more"."""
    lines = [str(problem) for problem in problems]
    shown = [f"  {line}" for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"  and {len(lines) - limit} more")
    return "\n".join(shown)


def counted(number: int, noun: str) -> str:
    """`1 variable`, `2 variables`: a number and its noun, which forms its plural with an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def near_names(name: str, names: Sequence[str], limit: int = 5) -> list[str]:
    """Names that begin with `name`, then those spelt like it, nearest first; case aside."""
    import difflib

    by_lower: dict[str, str] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), candidate)
    typed = name.lower()
    longer = [found for found in by_lower if len(typed) > 3 and found.startswith(typed)]
    near = difflib.get_close_matches(typed, list(by_lower), n=limit, cutoff=0.6)
    return [by_lower[found] for found in dict.fromkeys([*longer, *near])][:limit]
