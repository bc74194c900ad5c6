"""Options of `data build`: what each may be, where the output may go, and what runs the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from checkpoints.errors import OutputExistsError, UsageError
from checkpoints.files import refuse_existing
from finetune.beam.options import check_runner, read_options
from finetune.cloud.paths import CloudPath, Place
from finetune.datasets.dataset import is_dataset_directory
from finetune.datasets.runners import LocalRunner, Runner
from finetune.datasets.workplace import Workplace


def check_options(
    val: float,
    test: float,
    on_error: str,
    shards: int | None,
    processes: int | None,
    max_side: int | None,
    depth: int,
) -> None:
    """Raises UsageError where an option of `build` is out of range."""
    if on_error not in ("skip", "fail"):
        raise UsageError(
            "--on-error is neither skip nor fail.", expected="skip or fail", received=repr(on_error)
        )
    shares = (val, test)
    if not all(isinstance(share, (int, float)) for share in shares) or not (
        0 <= val < 1 and 0 <= test < 1 and val + test < 1
    ):
        raise UsageError(
            "The shares of validation and test pictures leave nothing to train on.",
            expected="--val and --test from 0, together below 1",
            received=f"--val {val!r} --test {test!r}",
        )
    for option, value in (
        ("--shards", shards),
        ("--processes", processes),
        ("--max-side", max_side),
        ("--depth", depth),
    ):
        if value is None and option != "--depth":
            continue
        if not isinstance(value, int) or value < 1:
            raise UsageError(
                f"{option} is no whole number from 1.", expected="1 or more", received=repr(value)
            )


def check_output(pictures: Place, out: Place, overwrite: bool) -> None:
    """Refuses an output that may not be replaced.

    --overwrite replaces datasets, not folders of other things, and never the pictures.
    """
    if isinstance(out, CloudPath):
        from finetune.cloud import output

        if f"{out}/".startswith(f"{pictures}/") or f"{pictures}/".startswith(f"{out}/"):
            raise UsageError(
                f"{out} and {pictures} lie one inside the other.",
                expected="an output beside the pictures",
                next_step="Name another output.",
            )
        output.refuse_existing(out, overwrite)
        return
    refuse_existing(out, overwrite, is_directory=True)
    if isinstance(pictures, Path):
        _check_beside(pictures, out)
    if out.is_dir() and any(out.iterdir()) and not is_dataset_directory(out):
        raise OutputExistsError(
            f"{out} is there and is no dataset; --overwrite replaces datasets only.",
            next_step="Name another output directory, or remove this one yourself.",
        )


def _check_beside(pictures: Path, out: Path) -> None:
    if out.resolve() in (pictures.resolve(), *pictures.resolve().parents):
        raise UsageError(
            f"{out} holds the pictures and would be replaced.",
            next_step="Name another output directory.",
        )
    if pictures.is_dir() and out.resolve().is_relative_to(pictures.resolve()):
        raise UsageError(
            f"{out} lies inside {pictures}: the next build would take it for pictures.",
            next_step="Name an output directory beside it.",
        )


def find_runner(
    name: str, beam_options: str, processes: int | None, pictures: Place, out: Place
) -> Callable[[Workplace], Runner]:
    """What makes the runner of that name, once there is a place to write to."""
    check_runner(name, beam_options)
    if name == "beam":
        from finetune.beam.pictures import BeamRunner

        options = read_options(beam_options, processes)
        return lambda place: BeamRunner(place, options)
    for place in (pictures, out):
        if isinstance(place, CloudPath):
            raise UsageError(
                f"{place} lies in cloud storage, which worker processes of this machine alone do "
                "not open.",
                expected="paths of this machine, or --runner beam",
                next_step="Add --runner beam; it works on this machine too.",
            )
    return lambda place: LocalRunner(place, processes)
