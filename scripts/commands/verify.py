"""slimtune verify: whether files are whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scripts.output import Output
from scripts.verb import verb

_META = ".meta"
_RECORD_ENDINGS = (".tfrecord", ".tfrecords")


@verb("verify", example="slimtune verify model.ckpt\nslimtune verify runs/a --json")
@click.argument("path")
def command(output: Output, path: str) -> None:
    """Read all of PATH and compare it with its own sizes, places and checksums.

    PATH is a checkpoint in any spelling, an npz or safetensors file, a .meta (its checkpoint is
    verified too), a TFRecord file or a dataset directory. Exit code 1 where something is found:
    the first thing is told, and how many more there are; --json has them all.
    """
    from finetune.dataset import is_dataset_directory

    if is_dataset_directory(Path(path)):
        result = _dataset(Path(path), output)
    elif path.endswith(_META):
        result = _meta_graph(path, output)
    else:
        result = _checkpoint_or_records(path, output)
    output.result(result, _text(result))
    if not result["ok"]:
        raise click.exceptions.Exit(1)


def _checkpoint_or_records(path: str, output: Output) -> dict[str, Any]:
    import checkpoints
    from checkpoints.containers import TFRECORD, recognise
    from checkpoints.errors import UnsupportedError

    try:
        return checkpoints.verify(path, progress=output).as_json()
    except UnsupportedError:
        file = Path(path)
        # One whose first bytes are damaged is known by its name only.
        if recognise(file) != TFRECORD and file.suffix not in _RECORD_ENDINGS:
            raise
    return _records(path, "tfrecord", [(file, None)], output)


def _meta_graph(path: str, output: Output) -> dict[str, Any]:
    """A graph, and the checkpoint beside it."""
    import checkpoints
    from checkpoints.errors import GraphError, NotFoundError
    from exporters.graph import read_graph

    try:
        result = checkpoints.verify(path, progress=output).as_json()
        result["checkpoint"] = result["path"]
    except NotFoundError as error:
        if not Path(path).is_file():
            raise
        result = {"problems": [_problem("missing-file", path, error.message)], "variables": 0}
        result |= {"checkpoint": None, "bytes": 0, "notes": []}
    result |= {"path": path, "kind": "meta-graph"}
    result["bytes"] += Path(path).stat().st_size
    try:
        read_graph(path)
    except GraphError as error:
        result["problems"].insert(0, _problem("graph", path, error.message))
    return result | {"ok": not result["problems"]}


def _dataset(path: Path, output: Output) -> dict[str, Any]:
    from checkpoints.errors import DataError
    from finetune.dataset import read_dataset

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
    from finetune.records import read_records

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

    noun = "variable" if "variables" in result else "record"
    number = counted(result[f"{noun}s"], noun)
    what = f"{result['path']}: {number}, {result['bytes'] / 1e6:,.1f} MB"
    if result["ok"]:
        return "\n".join([f"{what}, all whole", *result["notes"]])
    first, *others = result["problems"]
    named = "" if first["name"] is None else f"variable {first['name']}: "
    lines = [what, f"{first['path']}: {named}{first['detail']}"]
    if others:
        lines.append(f"and {len(others)} more (--json lists all)")
    return "\n".join(lines)
