"""The forms a model can be written in: one table, read by `convert` and by messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import UsageError, near_names


@dataclass(frozen=True)
class Form:
    """One form.

    Attributes:
      name: what `--to` takes.
      title: for people.
      ending: what a destination's name ends in, as a regular expression; empty where only
        `--to` chooses it.
      example: a name that chooses it.
      writer: "module:function" that writes it.
      sources: names of the forms that it is written from.
      extra: the extra of slimtune that writing it needs, or "".
      packages: what that extra brings.
    """

    name: str
    title: str
    ending: str
    example: str
    writer: str
    sources: tuple[str, ...]
    extra: str = ""
    packages: tuple[str, ...] = ()


_ANY = ("v2", "v1", "npz", "safetensors", "meta", "pb", "pbtxt", "saved-model")
"""Variables become a model with a graph (a .meta beside, --graph or --net); constants of a frozen
graph become variables."""

_VARIABLES = "exporters.writers.checkpoint:write"

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form(
            "pb",
            "frozen GraphDef",
            r"\.pb",
            "model.pb",
            "exporters.writers.frozen_graph:write",
            _ANY,
        ),
        Form("v2", "V2 checkpoint", r"\.ckpt(-\d+)?", "model.ckpt", _VARIABLES, _ANY),
        Form("v1", "V1 checkpoint", "", "--to v1", _VARIABLES, _ANY),
        Form(
            "meta",
            "MetaGraphDef",
            r"\.meta",
            "model.meta",
            "exporters.writers.meta_graph:write",
            _ANY,
        ),
        Form(
            "pbtxt",
            "frozen GraphDef as text",
            r"\.pbtxt",
            "model.pbtxt",
            "exporters.writers.frozen_text:write",
            _ANY,
        ),
        Form(
            "saved-model",
            "SavedModel",
            r"[/\\]",
            "model/",
            "exporters.writers.saved_model:write",
            _ANY,
        ),
        Form(
            "tflite",
            "TensorFlow Lite model",
            r"\.tflite",
            "model.tflite",
            "exporters.writers.tflite:write",
            _ANY,
            "litert",
            ("ai_edge_litert",),
        ),
        Form(
            "onnx",
            "ONNX model",
            r"\.onnx",
            "model.onnx",
            "exporters.writers.onnx:write",
            _ANY,
            "onnx",
            ("tf2onnx", "onnx", "onnxruntime"),
        ),
        Form(
            "safetensors",
            "safetensors file",
            r"\.safetensors",
            "model.safetensors",
            _VARIABLES,
            _ANY,
        ),
        Form("npz", "numpy arrays", r"\.npz", "model.npz", _VARIABLES, _ANY),
    )
}


def form_of(destination: str | Path, to: str | None = None) -> Form:
    """The form to write: as `--to` says, else as the name of the destination ends.

    Args:
      destination: as it was typed; a slash at the end means a directory.
      to: the name of a form, or None.

    Raises:
      UsageError: there is no such form, or the name tells none.
    """
    return _named(to) if to is not None else _by_ending(str(destination))


def _named(name: str) -> Form:
    if name not in FORMS:
        near = near_names(name, list(FORMS))
        raise UsageError(
            f"There is no form {name!r}.",
            expected=", ".join(FORMS),
            received=name,
            next_step=f"--to {near[0]}" if near else None,
        )
    return FORMS[name]


def _by_ending(destination: str) -> Form:
    for form in FORMS.values():
        if form.ending and re.search(rf"(?:{form.ending})$", destination):
            return form
    raise UsageError(
        f"{destination}: the name does not tell which form is wanted.",
        expected=", ".join(form.example for form in FORMS.values() if form.ending),
        received=Path(destination).name,
        next_step="Give the name an ending, or say it: --to pb",
    )
