"""slimtune data download: public pictures, fetched and laid out."""

from __future__ import annotations

from pathlib import Path

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.verb import verb


@verb(
    "download",
    example="slimtune data download flowers flower_photos\nslimtune data download mnist mnist",
)
@click.argument("what", type=click.Choice(["flowers", "mnist", "cifar10"]))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--url",
    metavar="URL",
    help="Fetch from this http or https address: of the archive of flowers or cifar10, or of the "
    "folder of mnist's four files.",
)
@click.option("--overwrite", is_flag=True, help="Fetch again and replace OUT.")
def command(output: Output, what: str, out: Path, url: str | None, overwrite: bool) -> None:
    """Fetch public pictures into the directory OUT.

    flowers: 3,670 photographs of five kinds, class folders of JPEGs (229 MB). mnist: 70,000 digits
    of 28 x 28 as four IDX files (12 MB). cifar10: 60,000 pictures of 32 x 32 in ten classes, as
    binary batches (170 MB). Files are kept in the cache (SLIMTUNE_CACHE), a
    download that was cut goes on where it stopped, and the SHA-256 is noted the first time and
    compared after.
    """
    from finetune.datasets.public_data import download_data

    got = download_data(what, out, url=url, overwrite=overwrite, progress=output)
    files = [
        {
            "path": file.path,
            "url": file.url,
            "sha256": file.sha256,
            "bytes": file.size,
            "resumed_bytes": file.resumed,
            "fetched": file.fetched,
        }
        for file in got.files
    ]
    output.result(
        {
            "name": got.name,
            "path": got.path,
            "classes": list(got.classes),
            "pictures": got.num_pictures,
            "files": files,
        },
        f"{got.num_pictures} pictures in {len(got.classes)} classes are in {one_line(got.path)}.",
        *(f"  {file.path.name}: SHA-256 {file.sha256}, {file.size} bytes" for file in got.files),
    )
    output.next(shell_words("slimtune", "data", "build", out, "shards"))
