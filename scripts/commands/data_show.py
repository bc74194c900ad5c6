"""slimtune data show: a contact sheet."""

from __future__ import annotations

from pathlib import Path

import click

from checkpoints.errors import UsageError
from scripts.output import Output, one_line
from scripts.verb import verb


@verb(
    "show",
    example="slimtune data show flowers --out sheet.png\n"
    "slimtune data show shards --out views.png --augment\n"
    "slimtune data show shards --out crops.png --boxes",
)
@click.argument("path", type=click.Path())
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PNG",
    help="The picture to write.",
)
@click.option(
    "--augment", is_flag=True, help="A picture of each class as evaluation and training see it."
)
@click.option(
    "--boxes", is_flag=True, help="Draw the crops that training would sample, and given boxes."
)
@click.option(
    "--per-class",
    type=click.IntRange(1, 32),
    default=8,
    show_default=True,
    metavar="N",
    help="Pictures of each class.",
)
@click.option(
    "--split",
    metavar="NAME",
    help="Of a dataset: default train, or what there is; of pictures that come in splits: default all.",
)
@click.option(
    "--preprocessing",
    default="inception",
    show_default=True,
    metavar="KIND",
    help="For --augment: inception, vgg, lenet, cifar, grey, none or unit.",
)
@click.option(
    "--image-size",
    type=click.IntRange(1),
    default=299,
    show_default=True,
    metavar="PX",
    help="For --augment: the net's input.",
)
@click.option(
    "--fast", is_flag=True, help="For --augment: the views of --augment fast in training."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of views and crops.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Levels of folders that make a class's name.",
)
@click.option("--overwrite", is_flag=True, help="Replace the PNG.")
def command(
    output: Output,
    path: str,
    out: Path,
    augment: bool,
    boxes: bool,
    per_class: int,
    split: str | None,
    preprocessing: str,
    image_size: int,
    fast: bool,
    seed: int,
    depth: int,
    overwrite: bool,
) -> None:
    """Draw a contact sheet of pictures.

    PATH is what data build takes, or a dataset. Class names stand above their pictures in whatever script the fonts at hand have; a
    character that none has stands as U+XXXX.
    """
    from finetune.cloud.local_copy import local_copy
    from finetune.datasets.sheet import draw_sheet
    from finetune.preprocessing import Preprocessing

    if augment and boxes:
        raise UsageError(
            "--augment and --boxes make two different sheets.", next_step="Give one of them."
        )
    result = draw_sheet(
        local_copy(path, output),
        out,
        mode="augment" if augment else "boxes" if boxes else "plain",
        per_class=per_class,
        split=split,
        preprocessing=Preprocessing(preprocessing, image_size),
        augment="fast" if fast else "full",
        seed=seed,
        depth=depth,
        overwrite=overwrite,
    )
    lines = [
        f"{result.num_pictures} pictures of {len(result.classes)} classes -> {one_line(result.path)}"
    ]
    if result.left_out:
        lines.append(f"{result.left_out} more classes are not on the sheet.")
    if result.missing_characters:
        lines.append(f"No font here has these characters: {result.missing_characters}")
    output.result(result.as_json(), *lines)
