"""The changes that options ask for, on the way from a frozen graph to what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from checkpoints.errors import UsageError, VerificationError
from checkpoints.progress import Progress
from exporters.conversion import Request
from exporters.freezing import FrozenGraph
from exporters.proofs.verdict import Verification

Comparison = Callable[[Path], Verification]
Write = Callable[[FrozenGraph, Comparison | None], Verification]
"""Writes a graph, verifies it, and puts it in place; the second argument runs what was written
and its source, and is None where nothing but variables changed."""


def write_changed(
    frozen: FrozenGraph, request: Request, write: Write, progress: Progress
) -> tuple[FrozenGraph, Verification]:
    """Writes the graph as the options want it; not optimised where the answers then differ.

    Args:
      frozen: the graph as it was prepared.
      request: what was asked for.
      write: what writes the form.
      progress: told what was changed.

    Returns:
      The graph that was written, and how it was verified.

    Raises:
      UsageError: the proof of the structure alone was asked for, of a graph that is changed.
      VerificationError: what was written is not what it should be; it is not left in place.
    """
    options = request.options
    if not (options.optimize or options.compat or options.with_preprocessing):
        return frozen, write(frozen, None)
    if request.verify == "structure":
        raise UsageError(
            "A graph whose operations are changed cannot be proved by its structure alone.",
            expected="--verify auto, run or none",
            received="--verify structure",
        )
    for changed in _candidates(frozen, request):
        if changed is frozen and not (options.compat or options.with_preprocessing):
            return frozen, write(frozen, None)
        finished, compare = _finished(frozen, changed, request, progress)
        try:
            verification = write(finished, compare)
        except VerificationError as error:
            if changed is frozen or error.received is None:
                raise
            progress.say(f"Not optimised, since the answers would differ: {error.received}")
            continue
        for line in finished.said[len(frozen.said) :]:
            progress.say(line)
        return finished, verification
    raise AssertionError("the last candidate is written or raises")


def _candidates(frozen: FrozenGraph, request: Request) -> Iterator[FrozenGraph]:
    if request.options.optimize:
        from exporters.optimising import optimise

        yield optimise(frozen)
    yield frozen


def _finished(
    frozen: FrozenGraph, changed: FrozenGraph, request: Request, progress: Progress
) -> tuple[FrozenGraph, Comparison]:
    """The other changes on top, and what compares the outcome with the source."""
    # Running needs TensorFlow, which the file half does without.
    from exporters.proofs.verification import ATOL, RTOL, verify_run
    from exporters.runtimes import verification as of_runtimes

    label = str(request.destination)
    rtol, atol = RTOL, ATOL
    if changed is not frozen:
        # Folded filters round otherwise in every layer, as the sums of other runtimes do.
        rtol, atol = of_runtimes.RTOL, of_runtimes.ATOL
    compare: Comparison = partial(
        verify_run,
        frozen,
        label=label,
        trust=request.trust,
        rtol=rtol,
        atol=atol,
        progress=progress,
    )
    options = request.options
    if options.with_preprocessing is not None:
        from exporters.joining import join, verify_joined

        joined = join(changed, options.with_preprocessing)
        compare = partial(
            verify_joined,
            frozen,
            joined,
            label=label,
            trust=request.trust,
            rtol=rtol,
            atol=atol,
            progress=progress,
        )
        changed = joined.frozen
    if options.compat:
        from exporters.compat import for_older_readers

        changed = for_older_readers(changed)
    return replace(changed, rewritten=True), compare
