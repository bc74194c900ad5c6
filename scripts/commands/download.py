"""slimtune download: a published checkpoint, unpacked and ready."""

from __future__ import annotations

from pathlib import Path

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.verb import verb


@verb(
    "download",
    example="slimtune download inception_v3\nslimtune download mobilenet_v1_1.0_224 --to models",
)
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where it goes. Default: the cache, where --checkpoint NAME finds it.",
)
@click.option(
    "--url", metavar="URL", help="Fetch from this http or https address instead of the published."
)
@click.option("--overwrite", is_flag=True, help="Fetch again and replace what is there.")
def command(output: Output, name: str, to: Path | None, url: str | None, overwrite: bool) -> None:
    """Get the published checkpoint NAME (slimtune nets lists the names).

    What is there already is not fetched again, and a download that was cut goes on where it
    stopped. SLIMTUNE_MIRROR names a mirror, SLIMTUNE_CACHE the cache. The SHA-256 is noted the
    first time and compared after.
    """
    from checkpoints.downloading import download
    from checkpoints.published import get_checkpoint

    got = download(name, to=to, url=url, overwrite=overwrite, progress=output)
    record = get_checkpoint(name)
    place = one_line(got.path)
    where = {
        "downloaded": f"{name}: downloaded to {place}",
        "unpacked": f"{name}: unpacked to {place}",
        "present": f"{name}: already at {place}",
        "bundled": f"{name}: ships with slimtune, at {place}",
    }[got.status]
    facts = (
        f"  for net {record.net}, {record.classes} classes (label offset {record.label_offset}), "
        f"{record.image_size} pixels, {record.preprocessing} preprocessing"
    )
    lines = [where, facts]
    if got.sha256 is not None:
        lines.append(f"  SHA-256 {got.sha256}, {got.size} bytes")
    output.result(
        {
            "name": got.name,
            "net": record.net,
            "status": got.status,
            "path": got.path,
            "files": list(got.files),
            "archive": got.archive,
            "url": got.url,
            "sha256": got.sha256,
            "bytes": got.size,
            "resumed_bytes": got.resumed,
        },
        "\n".join(lines),
    )
    checkpoint = name if to is None else shell_words(got.path)
    output.next(f"slimtune plan --net {record.net} --checkpoint {checkpoint} --classes 5")
