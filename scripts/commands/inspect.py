"""slimtune inspect: what a file is and what is in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scripts.output import Output
from scripts.verb import verb

_META = ".meta"


@verb(
    "inspect",
    example="slimtune inspect model.pb\n"
    "slimtune inspect model.ckpt\n"
    "slimtune inspect runs/a --stats --filter '^Logits/'",
)
@click.argument("path")
@click.option("--stats", is_flag=True, help="Add min, max, mean, std and NaN count of the values.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only variables whose names match.")
def command(output: Output, path: str, stats: bool, pattern: str | None) -> None:
    """Show what PATH is and what is in it, from headers alone.

    PATH is a checkpoint in any spelling (its prefix, one of its files, a shard or a pattern of
    shards, a directory, a `checkpoint` file), an npz or safetensors file, a graph (.pb, .pbtxt,
    .meta, a SavedModel), a dataset or run directory, or a TFRecord file. Of a graph inputs and
    outputs are told, and what would stop it from serving. What is none of these is named for
    what it is.
    """
    result, text = _looked_at(path, stats, pattern, output)
    output.result(result, text)
    if "problems" in result:
        raise click.exceptions.Exit(1)


def _looked_at(
    path: str, stats: bool, pattern: str | None, output: Output
) -> tuple[dict[str, Any], str]:
    """The JSON object, and the text for people."""
    from checkpoints.errors import GraphError, UnsupportedError
    from checkpoints.family import resolve
    from exporters.sources import is_graph
    from finetune.datasets.dataset import is_dataset_directory
    from scripts.inspecting import others
    from scripts.inspecting.checkpoint import checkpoint_contents, checkpoint_text
    from scripts.inspecting.graph import graph_contents, graph_text
    from scripts.inspecting.variables import compiled

    regex = compiled(pattern)
    place = Path(path)
    if others.is_hub_module(place):
        return others.hub_module(place)
    if is_dataset_directory(place):
        return others.dataset(place)
    if others.is_run_directory(place):
        return others.run(place, regex, stats, output)
    is_named_as_graph = is_graph(place) or (place.suffix == _META and place.is_file())
    if not is_named_as_graph:
        try:
            family = resolve(path)
        except UnsupportedError:
            if not place.is_file():
                raise
        else:
            saved = checkpoint_contents(family, regex, stats, output)
            return saved, checkpoint_text(saved, stats)
    # A graph may have any name, and a file that is named like one may be something else.
    try:
        graph = graph_contents(path, regex, stats, output)
    except GraphError:
        if place.is_file() and (others.is_other(place) or not is_named_as_graph):
            return others.other_file(place)
        raise
    return graph, graph_text(graph, stats)
