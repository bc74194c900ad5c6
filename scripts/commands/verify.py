"""slimtune verify: whether files are whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scripts.output import Output, one_line
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.family import Family

_META = ".meta"
_OF_NODES = ("checkpoint", "constant", "edge", "function", "loop")
"""Kinds of findings whose names are those of nodes."""
_RECORD_ENDINGS = (".tfrecord", ".tfrecords")


@verb(
    "verify",
    example="slimtune verify model.ckpt\nslimtune verify model.pb\nslimtune verify runs/a --json",
)
@click.argument("path")
def command(output: Output, path: str) -> None:
    """Read all of PATH and compare it with its own sizes, places and checksums.

    PATH is a checkpoint in any spelling, an npz or safetensors file, a graph (.pb, .pbtxt, .meta
    or a SavedModel; its checkpoint is verified too), a TFRecord file or a dataset directory. Exit
    code 1 where something is found: the first thing is told, and how many more there are; --json
    has them all.
    """
    import exporters
    from exporters.sources import is_graph
    from finetune.datasets.dataset import is_dataset_directory

    place = Path(path)
    if is_dataset_directory(place):
        result = _dataset(place, output)
    elif is_graph(place) or place.suffix == _META:
        result = exporters.verify(place, progress=output).as_json()
    else:
        result = _checkpoint_or_records(path, output)
    output.result(result, _text(result))
    if not result["ok"]:
        raise click.exceptions.Exit(1)


def _checkpoint_or_records(path: str, output: Output) -> dict[str, Any]:
    import checkpoints
    import exporters
    from checkpoints.containers import TFRECORD, recognise
    from checkpoints.errors import UnsupportedError

    try:
        meta = _meta_of(path)
        if meta is not None:
            return _with_graph(meta, output)
        return checkpoints.verify(path, progress=output).as_json()
    except UnsupportedError:
        file = Path(path)
        if not file.is_file():
            raise
        # One whose first bytes are damaged is known by its name only.
        if recognise(file) != TFRECORD and file.suffix not in _RECORD_ENDINGS:
            # A graph may have any name.
            graph = exporters.verify(path, progress=output)
            if graph.kind == "other":
                raise
            return graph.as_json()
    return _records(path, "tfrecord", [(file, None)], output)


def _meta_of(path: str) -> Family | None:
    """The checkpoint, where a graph is beside it."""
    from checkpoints.errors import CheckpointError
    from checkpoints.family import resolve

    try:
        family = resolve(path)
    except CheckpointError:  # its files are not whole, which is what verify tells
        return None
    return None if family.meta is None else family


def _with_graph(family: Family, output: Output) -> dict[str, Any]:
    """A checkpoint and the graph beside it."""
    import exporters

    found = exporters.verify(str(family.meta), progress=output).as_json()
    del found["checkpoint"]
    return found | {"path": str(family.prefix), "kind": family.kind, "meta": str(family.meta)}


def _dataset(path: Path, output: Output) -> dict[str, Any]:
    from checkpoints.errors import DataError
    from finetune.datasets.dataset import read_dataset

    try:
        splits = read_dataset(path).splits.values()
    except DataError as error:
        problems = [_problem("dataset", str(path), error.message)]
        return _result(str(path), "dataset", problems, 0, 0)
    shards = [(shard.path, shard.count) for split in splits for shard in split.shards]
    return _records(str(path), "dataset", shards, output)


def _records(
    path: str, kind: str, files: Sequence[tuple[Path, int | None]], output: Output
) -> dict[str, Any]:
    """Every record's checksums, and how many records there are where that is known."""
    from checkpoints.errors import DataError
    from finetune.datasets.records import read_records

    problems = []
    count = 0
    with output.task("Verifying", len(files), "files") as task:
        for file, expected in files:
            try:
                for _ in read_records(file, expected):
                    count += 1
            except DataError as error:
                problems.append(_problem("record", str(file), error.message))
            task.advance()
    num_bytes = sum(file.stat().st_size for file, _ in files)
    return _result(path, kind, problems, count, num_bytes)


def _problem(kind: str, path: str, detail: str) -> dict[str, Any]:
    return {"kind": kind, "path": path, "name": None, "detail": detail}


def _result(
    path: str, kind: str, problems: list[dict[str, Any]], count: int, num_bytes: int
) -> dict[str, Any]:
    return {
        "path": path,
        "kind": kind,
        "ok": not problems,
        "problems": problems,
        "records": count,
        "bytes": num_bytes,
        "notes": [],
    }


def _text(result: dict[str, Any]) -> str:
    from checkpoints.errors import counted

    nouns = [noun for noun in ("node", "variable", "record") if f"{noun}s" in result]
    number = ", ".join(counted(result[f"{noun}s"], noun) for noun in nouns)
    what = f"{one_line(result['path'])}: {number}, {result['bytes'] / 1e6:,.1f} MB"
    if result["ok"]:
        return "\n".join([f"{what}, all whole", *result["notes"]])
    first, *others = result["problems"]
    noun = "node" if first["kind"] in _OF_NODES else "variable"
    named = "" if first["name"] is None else f"{noun} {one_line(first['name'])}: "
    lines = [what, f"{one_line(first['path'])}: {named}{_detail(first)}"]
    if others:
        lines.append(f"and {len(others)} more (--json lists all)")
    return "\n".join(lines)


def _detail(problem: dict[str, Any]) -> str:
    """What is wrong, without the file's name, which stands before it already."""
    detail: str = problem["detail"]
    return detail.removeprefix(problem["path"]).lstrip(": ")
