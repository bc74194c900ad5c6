"""slimtune data build: pictures of any source to shards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from checkpoints.command_lines import shell_words
from checkpoints.errors import listed
from scripts.output import Output, one_line
from scripts.rows import Rows
from scripts.runner_options import runner_options
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.datasets.build import BuildResult


@verb(
    "build",
    example="slimtune data build flowers shards --val 0.1\n"
    "slimtune data build flowers shards --test 0.1 --on-error fail --overwrite\n"
    "slimtune data build flowers shards --manifest flowers.csv --overwrite",
)
@click.argument("pictures", type=click.Path())
@click.argument("out", type=click.Path())
@click.option(
    "--val", type=float, default=0.1, show_default=True, help="Share of pictures for validation."
)
@click.option(
    "--test", type=float, default=0.0, show_default=True, help="Share of pictures for the test."
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    metavar="N",
    help="Files a split. Default: 5, more for large data.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    metavar="N",
    help="Worker processes. Default: one a core.",
)
@click.option(
    "--on-error",
    type=click.Choice(["skip", "fail"]),
    default="skip",
    show_default=True,
    help="Leave broken pictures out and name them, or stop at the first.",
)
@click.option(
    "--max-side",
    type=click.IntRange(1),
    metavar="PX",
    help="Shrink larger pictures to this on the longer side.",
)
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Levels of folders that make a class's name.",
)
@click.option(
    "--manifest",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.csv",
    help="What the pictures show: columns path, label and, if you like, split, x0, y0, x1, y1.",
)
@runner_options
@click.option("--overwrite", is_flag=True, help="Replace OUT.")
def command(
    output: Output,
    pictures: str,
    out: str,
    val: float,
    test: float,
    shards: int | None,
    processes: int | None,
    on_error: Literal["skip", "fail"],
    max_side: int | None,
    depth: int,
    manifest: Path | None,
    runner: Literal["local", "beam"],
    beam_options: str,
    overwrite: bool,
) -> None:
    """Turn pictures into TFRecord shards.

    PICTURES has one folder for each class; everything inside it belongs to the class, hidden
    files aside. Where PICTURES holds nothing but train, val and test, these splits are kept.
    With --manifest a CSV file says what each picture below PICTURES shows. PICTURES may also be a
    directory of MNIST's IDX files or CIFAR-10's batches, or TFRecord files of other layouts.
    With --runner beam PICTURES and OUT may lie in cloud storage, as in gs://bucket/flowers.

    The split of a picture depends on its content alone, so added pictures do not move others; but
    a class that would have no training picture gets one of its others, until it has one of its own.
    Boxes are of the upright picture, EXIF orientation applied. --on-error fail also stops at files
    of the manifest that are not there.
    Sound JPEGs are copied byte for byte; other pictures become RGB, as PNG where the source was
    lossless, else as JPEG.
    """
    from finetune.datasets.build import build

    result = build(
        pictures,
        out,
        val=val,
        test=test,
        shards=shards,
        processes=processes,
        on_error=on_error,
        max_side=max_side,
        depth=depth,
        manifest=manifest,
        runner=runner,
        beam_options=beam_options,
        overwrite=overwrite,
        progress=output,
    )
    output.result(result.as_json(), _table(result), *_lines(result))
    place = shell_words(result.path if isinstance(result.path, Path) else str(result.path))
    output.next(
        f"slimtune data show {place} --out sheet.png",
        f"slimtune train {place} --run runs/a",
    )


def _table(result: BuildResult) -> Rows:
    splits = [split for split, counts in result.counts.items() if sum(counts)]
    table = Rows("label", "class", *splits, texts=("class",))
    for label, name in enumerate(result.classes):
        table.add(str(label), name, *(str(result.counts[split][label]) for split in splits))
    table.add("", "in all", *(str(result.sizes[split]) for split in splits), style="bold")
    return table


def _lines(result: BuildResult) -> list[str]:
    lines = [
        f"{result.num_pictures} pictures in {len(result.classes)} classes -> {one_line(result.path)} "
        f"({result.seconds:.1f} s)"
    ]
    lines.extend(f"  {count} x {change}" for change, count in result.changes.items())
    for title, entries in (
        ("Skipped", [f"{item.path}: {item.detail}" for item in result.skipped]),
        ("Other files, left alone", result.ignored),
        ("Folders without a usable picture, no class of the dataset", result.empty_classes),
        ("Classes without a validation picture", result.without_validation),
        ("Classes without a training picture", result.without_training),
        (
            "In training only because their class has no other picture there; they go back to "
            "their own split when it has",
            result.moved_to_training,
        ),
        (
            "The same picture in several classes or splits",
            [" = ".join(group) for group in result.duplicates],
        ),
    ):
        if entries:
            lines.append(f"{title} ({len(entries)}):\n{listed(map(one_line, entries))}")
    if result.repeated:
        lines.append(f"Files that repeat another of their class: {result.repeated}")
    return lines
