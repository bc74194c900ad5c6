"""Datasets, runs, records and files of others as inspect shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scripts.inspecting.checkpoint import checkpoint_contents, variable_lines
from scripts.output import Output, one_line

_HUB_MODULE = "tfhub_module.pb"
_ARRAY = "a numpy array (.npy)"
_KINDS = {"a TFLite model": "tflite", "an ONNX model": "onnx", "a TFRecord file": "tfrecord"}


def is_hub_module(path: Path) -> bool:
    """Whether a directory is a module of TensorFlow 1's Hub."""
    return (path / _HUB_MODULE).is_file()


def hub_module(path: Path) -> tuple[dict[str, Any], str]:
    """What is told of a Hub module, as JSON and for people."""
    result = {
        "kind": "other",
        "path": str(path),
        "files": [str(path / _HUB_MODULE)],
        "received": "a TensorFlow 1 Hub module",
    }
    next_step = "Load it with tensorflow_hub, and export what it builds as a SavedModel."
    return result, f"{one_line(path)}: a TensorFlow 1 Hub module\nNext: {next_step}"


def other_file(path: Path) -> tuple[dict[str, Any], str]:
    """What is told of a file that is none of the forms, as JSON and for people."""
    from checkpoints.containers import recognise

    container = recognise(path)
    kind = _KINDS.get(container.name, "other")
    result = {"kind": kind, "path": str(path), "files": [str(path)], "received": container.name}
    if kind == "tfrecord":
        return _records(path, result)
    if kind in ("onnx", "tflite"):
        return _model(path, result)
    if container.name == _ARRAY:
        return _array(path, result)
    next_step = "" if container.next_step is None else f"\nNext: {container.next_step}"
    return result, f"{one_line(path)}: {container.name}{next_step}"


def _model(path: Path, result: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Inputs, outputs and ops of a model of another runtime; a damaged one is still named."""
    from checkpoints.errors import GraphError
    from exporters.runtimes.onnx_contents import onnx_contents
    from exporters.runtimes.tflite_contents import tflite_contents
    from scripts.inspecting.graph import endpoint_lines, metadata_lines, ops_line

    read = onnx_contents if result["kind"] == "onnx" else tflite_contents
    title = "ONNX model" if result["kind"] == "onnx" else "TFLite model"
    try:
        contents = read(path)
    except GraphError as error:
        return result | {"notes": [str(error)]}, f"{one_line(path)}: {title}\n{error}"
    result |= contents.as_json()
    nodes = sum(result["ops"].values())
    lines = [f"{one_line(path)}: {title}, {nodes:,} nodes, {result['parameters']:,} parameters"]
    lines += [*endpoint_lines(result), ops_line(result)]
    versions = [text for text in (contents.written_for, contents.written_by) if text is not None]
    lines.append(f"Version     {', '.join(versions)}")
    lines += metadata_lines(result["metadata"])
    return result, "\n".join(lines)


def is_other(path: Path) -> bool:
    """Whether a file is known to be something else than a graph."""
    from checkpoints.containers import MAY_BE_GRAPHS, recognise

    return recognise(path).name not in MAY_BE_GRAPHS


def dataset(path: Path) -> tuple[dict[str, Any], str]:
    """What is in a dataset directory."""
    from finetune.datasets.dataset import read_dataset

    found = read_dataset(path)
    splits: dict[str, dict[str, Any]] = {
        name: {
            "count": split.count,
            "counts": dict(zip(found.classes, found.counts.get(name, ()), strict=False)),
            "shards": [str(shard.path) for shard in split.shards],
        }
        for name, split in found.splits.items()
    }
    result = {
        "kind": "dataset",
        "path": str(found.path),
        "files": [str(shard) for split in splits.values() for shard in split["shards"]],
        "name": found.name,
        "classes": list(found.classes),
        "label_offset": found.label_offset,
        "multi_label": found.multi_label,
        "splits": splits,
        "hash": found.content_hash or None,
    }
    lines = [f"{one_line(found.path)}: dataset {found.name}, {len(found.classes):,} classes"]
    for name, split in splits.items():
        lines.append(f"{name:<6} {split['count']:,} pictures in {len(split['shards'])} shards")
    if found.label_offset:
        lines.append(f"labels count from {found.label_offset}, as the records' class names say")
    if found.multi_label:
        lines.append("pictures may have several classes")
    lines += ["", *(f"{index}: {name}" for index, name in enumerate(found.classes))]
    return result, "\n".join(lines)


def is_run_directory(path: Path) -> bool:
    """Whether `slimtune train` wrote into a directory."""
    from finetune.run import Run

    return path.is_dir() and Run(path).exists()


def run(
    path: Path, regex: re.Pattern[str] | None, stats: bool, output: Output
) -> tuple[dict[str, Any], str]:
    """What is in a run directory: its options, how far it is, and the newest checkpoint."""
    from checkpoints.family import latest
    from finetune.run import Run
    from finetune.training.option_checks import is_number

    found = Run(path)
    family = latest(path)
    best = found.best_accuracy()
    evaluated = [entry for entry in found.read_metrics() if is_number(entry.get("accuracy"))]
    result: dict[str, Any] = {
        "kind": "run",
        "path": str(path),
        "files": sorted(str(file) for file in path.iterdir() if file.is_file()),
        "checkpoint": None if family is None else str(family.prefix),
        "step": found.step(),
        "total_steps": found.total_steps(),
        "finished": found.is_finished(),
        "accuracy": evaluated[-1]["accuracy"] if evaluated else None,
        "best_accuracy": best,
        "options": found.read_config().as_json(),
        "variables": [],
        "parameters": 0,
    }
    if family is not None:
        saved = checkpoint_contents(family, regex, stats, output)
        for key in ("variables", "parameters", "notes", "problems"):
            if key in saved:
                result[key] = saved[key]
    return result, _run_text(result, stats)


def _run_text(result: dict[str, Any], stats: bool) -> str:
    options = result["options"]
    state = "finished" if result["finished"] else "unfinished"
    lines = [
        f"{one_line(result['path'])}: run of {options.get('net')}, step {result['step']:,} of"
        f" {result['total_steps']:,}, {state}"
    ]
    if result["checkpoint"] is not None:
        lines.append(f"Checkpoint  {one_line(result['checkpoint'])}")
    for title, value in (("Accuracy", result["accuracy"]), ("Best", result["best_accuracy"])):
        if value is not None:
            lines.append(f"{title:<10}  {value:.1%}")
    chosen = ", ".join(f"{key} {value}" for key, value in options.items() if value is not None)
    lines.append(f"Options     {chosen}")
    return "\n".join([*lines, *variable_lines(result, stats)])


def _records(path: Path, result: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """How many records there are, and what the first one holds."""
    from checkpoints.errors import DataError
    from finetune.datasets.records import count_records, parse_example, read_records

    features: dict[str, str] = {}
    try:
        result["records"] = count_records(path)
        for record in read_records(path):
            for key, values in sorted(parse_example(record).items()):
                first = type(values[0]).__name__ if values else "nothing"
                features[key] = f"{first} x {len(values)}"
            break
    except DataError as error:
        result["notes"] = [error.message]
    result["features"] = features
    count = "" if "records" not in result else f", {result['records']:,} records"
    lines = [f"{one_line(path)}: TFRecord file{count}", *result.get("notes", [])]
    lines += [f"{key}  {kind}" for key, kind in features.items()]
    return result, "\n".join(lines)


def _array(path: Path, result: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Dtype and shape of a .npy file, from its header."""
    from checkpoints.errors import BrokenFileError
    from checkpoints.npy_header import HEAD_BYTES, read_npy_header

    shown = one_line(path)
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    try:
        _, dtype, _, shape = read_npy_header(head)
    except BrokenFileError as error:
        return result | {"notes": [error.message]}, f"{shown}: numpy array; {error.message}"
    entry = {"name": path.stem, "dtype": dtype.name, "shape": list(shape), "role": "other"}
    sizes = " x ".join(map(str, shape)) or "scalar"
    return result | {"variables": [entry]}, f"{shown}: numpy array, {dtype.name}, {sizes}"
