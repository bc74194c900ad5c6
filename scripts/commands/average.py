"""slimtune average: the mean of several checkpoints."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.averaging import Averaged


@verb(
    "average",
    example="slimtune average run/model.ckpt-800 run/model.ckpt-900 run/model.ckpt-1000 mean.ckpt",
)
@click.argument("sources", metavar="A B ...", nargs=-1, required=True)
@click.argument("destination", metavar="DST")
@click.option(
    "--to",
    "version",
    type=click.Choice(["v1", "v2", "npz", "safetensors"]),
    help="The form of DST; left out, as its name ends: .npz, .safetensors, else V2.",
)
@click.option("--overwrite", is_flag=True, help="Replace DST; of a link the link.")
def command(output: Output, sources: tuple[str, ...], destination: str, **options: Any) -> None:
    """Write the mean of the checkpoints A, B and so on to DST.

    Float variables become their mean, summed in 64 bits; the step becomes the highest; other
    variables are the newest checkpoint's, which is said where they differ. What is written is
    read again and compared. A .meta beside A goes with it, its Saver made to fit; DST cannot be
    one of the sources.
    """
    import checkpoints
    from exporters.savers.travelling import carried_meta

    meta = functools.partial(carried_meta, progress=output)
    done = checkpoints.average(sources, destination, meta=meta, progress=output, **options)
    output.result(done.as_json(), _text(done))
    output.next(shell_words("slimtune", "inspect", done.path))


def _text(done: Averaged) -> str:
    from checkpoints.errors import counted

    step = "unknown" if done.step is None else done.step
    return (
        f"{one_line(done.path)}: the mean of {len(done.sources)} checkpoints, "
        f"{counted(done.num_averaged, 'variable')} averaged, step {step}, {done.num_bytes / 1e6:,.1f} MB"
    )
