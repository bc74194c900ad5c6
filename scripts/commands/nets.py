"""slimtune nets: the nets, and under each the checkpoints published for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from scripts.output import Output
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.published import Net


@verb("nets", example="slimtune nets\nslimtune nets '*v3*' --json")
@click.argument("pattern", required=False)
def command(output: Output, pattern: str | None) -> None:
    """List the nets that --net takes and the checkpoints that --checkpoint and download take.

    PATTERN is a part of a net's or a checkpoint's name, or a name with *, ? and [...]; with it
    come the papers and the addresses of the checkpoints.
    """
    from checkpoints.errors import NotFoundError, near_names
    from checkpoints.published import CHECKPOINTS, NETS

    nets = [net for net in NETS.values() if pattern is None or _matches(net, pattern)]
    if not nets:
        near = near_names(str(pattern), [*NETS, *CHECKPOINTS])
        raise NotFoundError(
            f"No net and no checkpoint is named like {pattern!r}.",
            expected=f"Names near it: {', '.join(near)}" if near else None,
            next_step="slimtune nets lists all.",
        )
    output.result({"nets": [_as_json(net) for net in nets]}, _text(nets, pattern is not None))
    output.next("slimtune download NAME", "slimtune plan --net NET --checkpoint NAME --classes 5")


def _matches(net: Net, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    from checkpoints.published import checkpoints_for

    wanted = pattern.lower()
    if not any(sign in wanted for sign in "*?["):
        wanted = f"*{wanted}*"
    names = [net.name, *(checkpoint.name for checkpoint in checkpoints_for(net))]
    return any(fnmatchcase(name.lower(), wanted) for name in names)


def _text(nets: list[Net], with_sources: bool) -> str:
    return "\n".join([_table(nets), *(_sources(nets) if with_sources else [])])


def _sources(nets: list[Net]) -> list[str]:
    """Paper and addresses, a line each; of several nets from one paper it comes once."""
    from checkpoints.published import checkpoints_for

    papers = [f"{net.paper.authors} {net.paper.year}: {net.paper.title}" for net in nets]
    published = [checkpoint for net in nets for checkpoint in checkpoints_for(net)]
    places = [f"{one.name}: {one.url or 'ships with slimtune'}" for one in published]
    return [*dict.fromkeys(papers), *places]


def _table(nets: list[Net]) -> str:
    """One line a net and one a checkpoint, at any width: the long column is the last."""
    from checkpoints.published import checkpoints_for

    rows = [
        ("NET / CHECKPOINT", "PIXELS", "PREPROCESSING", "CLASSES", "OFFSET", "BOTTLENECK", "HEADS")
    ]
    for net in nets:
        heads = ", ".join(net.head_scopes)
        pixels = str(net.image_size)
        rows.append((net.name, pixels, net.preprocessing, "", "", net.bottleneck, heads))
        for checkpoint in checkpoints_for(net):
            sizes = (str(checkpoint.classes), str(checkpoint.label_offset))
            pixels = str(checkpoint.image_size)
            rows.append((f"  {checkpoint.name}", pixels, checkpoint.preprocessing, *sizes, "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)


def _as_json(net: Net) -> dict[str, Any]:
    from checkpoints.published import checkpoints_for

    return {
        **asdict(net),
        "head_scopes": net.head_scopes,
        "checkpoints": [asdict(checkpoint) for checkpoint in checkpoints_for(net)],
    }
