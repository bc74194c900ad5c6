"""Which classes a head was trained for: it must not answer for others that are as many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from checkpoints.command_lines import shell_words
from checkpoints.errors import DataError, PlanError, listed
from checkpoints.scopes import in_scope, in_scopes
from finetune.datasets.labels import LABELS_FILE, read_labels_file
from finetune.run import Run, read_json
from finetune.weights import DEFAULT_NET, Weights

_SHOWN = 10
"""How many class names of a list a message shows."""


def classes_of_run(run: Run) -> tuple[str, ...]:
    """The classes that a run is trained for, by its signature; empty before it has one."""
    if not run.signature_file.is_file():
        return ()
    signature = read_json(run.signature_file)
    classes = signature.get("classes") if isinstance(signature, dict) else None
    return tuple(map(str, classes)) if isinstance(classes, list) else ()


def labels_file_beside(checkpoint: Path) -> Path:
    """Where the class names of a checkpoint stand: of RUN/best in RUN, else beside its files."""
    directory = checkpoint if checkpoint.is_dir() else checkpoint.parent
    if directory.name == Run.BEST and Run(directory.parent).exists():
        directory = directory.parent
    return directory / LABELS_FILE


def classes_beside(checkpoint: Path | None, number: int) -> tuple[str, ...]:
    """The class names in the labels file beside a checkpoint.

    Args:
      checkpoint: a spelling that checkpoints.open takes, or None.
      number: how many classes its head has; names of another number are not its own.

    Returns:
      The names in the order of the logits; empty where nothing there names them.
    """
    if checkpoint is None:
        return ()
    with suppress(OSError, DataError):
        names = read_labels_file(labels_file_beside(checkpoint))
        return names if len(names) == number else ()
    return ()


def refuse_other_classes(run: Run, data: str, classes: Sequence[str]) -> None:
    """A run goes on with the classes that its head has learned, in their order.

    Args:
      run: the run.
      data: where the classes come from, for the message.
      classes: what it is to go on with.

    Raises:
      DataError: they are others, or others' places.
    """
    trained = classes_of_run(run)
    net = run.read_config().net or DEFAULT_NET
    if not trained or trained == tuple(classes):
        return
    raise DataError(
        f"{data} has other classes than the run {run.directory} was trained for:\n"
        + listed(_differences(trained, classes, "in the run", "in the data")),
        expected=_shown(trained),
        received=_shown(classes),
        next_step="Name data with the run's classes. A new head on what the run has learned: "
        + shell_words("slimtune", "train", data, "--run", "ANOTHER", "--net", net)
        + f" {shell_words('--checkpoint', run.directory)}",
    )


def refuse_head_of_other_classes(
    weights: Weights, exclude: Sequence[str], classes: Sequence[str]
) -> None:
    """A head is restored only for the classes it was trained for, where that is known.

    Args:
      weights: what the net starts from.
      exclude: the scopes that are not restored, cleaned.
      classes: what it is to be trained for.

    Raises:
      PlanError: the labels file beside the checkpoint names others, or others' places.
    """
    trained = classes_beside(weights.path, len(classes))
    if weights.path is None or not trained or trained == tuple(classes):
        return
    with weights.open() as saved:
        restored = [name for name in saved if in_scopes(name, weights.net.head_scopes)]
    restored = [name for name in restored if not in_scopes(name, exclude)]
    if not restored:
        return
    heads = [
        scope for scope in weights.net.head_scopes if any(in_scope(n, scope) for n in restored)
    ]
    beside = labels_file_beside(weights.path)
    raise PlanError(
        f"The head of {weights.name} was trained for other classes, as {beside} says:\n"
        + listed(_differences(trained, classes, "in the head", "in the data")),
        expected=_shown(trained),
        received=_shown(classes),
        next_step=f"--exclude {','.join(dict.fromkeys([*exclude, *heads]))} starts a new head. Are these the same classes under "
        f"new names, write the new ones into {beside.name} beside the checkpoint.",
    )


def _differences(
    before: Sequence[str], now: Sequence[str], in_before: str, in_now: str
) -> list[str]:
    """What two lists of classes do not share; where they share all, whose places differ."""
    lines = [f"only {in_before}: {name}" for name in (Counter(before) - Counter(now)).elements()]
    lines += [f"only {in_now}: {name}" for name in (Counter(now) - Counter(before)).elements()]
    return lines or [
        f"class {place}: {old} {in_before}, {new} {in_now}"
        for place, (old, new) in enumerate(zip(before, now, strict=True))
        if old != new
    ]


def _shown(classes: Sequence[str]) -> str:
    names = ", ".join(classes[:_SHOWN])
    more = f" and {len(classes) - _SHOWN} more" if len(classes) > _SHOWN else ""
    return f"{len(classes)} classes: {names}{more}"
