"""Group `serving`: pictures a second of a net in the forms that serve it, against plain runtimes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from checkpoints.errors import VerificationError
from checkpoints.progress import SILENT, Progress
from scripts.bench.case import Case, Command, Contender, Peer, Step, python, slimtune
from scripts.bench.groups.serve_pictures import PICTURES
from scripts.bench.process import run_work

AS_FAST = round(1 / 1.05, 3)
"""The same runtime on much the same graph: 5 % more time at most."""

AHEAD = 1.0

SIZE = 299
INPUT, OUTPUT = "input", "InceptionV3/Predictions/Reshape_1"

BATCH = 8
OPSET = 17
REPEAT = 3

TOLERANCE = 1e-3
"""How far apart two probabilities may be, as a share of the largest of the picture."""


@dataclass(frozen=True)
class Form:
    """A form that serves.

    Attributes:
      name: of the form, and the ending of its files.
      step: runs slimtune's file, "module:function".
      peer: how the peer is called.
      peer_step: runs the peer's file, "module:function".
      target: how many times slimtune's time the peer should at least take.
      needs: packages without which the form cannot be measured.
    """

    name: str
    step: str
    peer: str
    peer_step: str
    target: float
    needs: tuple[str, ...] = ()


_OURS, _PEERS = "scripts.bench.groups.serve_pictures", "scripts.bench.peers.serve_pictures"

GRAPH = Form(
    "pb", f"{_OURS}:serve_graph", "Session on freeze_graph's file", f"{_PEERS}:session", AHEAD
)
FORMS = (
    GRAPH,
    Form(
        "tflite",
        f"{_OURS}:serve_other",
        "interpreter on the converter's file",
        f"{_PEERS}:interpreter",
        AHEAD,
        ("ai_edge_litert",),
    ),
    Form(
        "onnx",
        f"{_OURS}:serve_other",
        "ONNX Runtime on tf2onnx's file",
        f"{_PEERS}:onnxruntime",
        AS_FAST,
        ("onnxruntime", "tf2onnx"),
    ),
)


def cases(directory: Path, quick: bool, progress: Progress = SILENT) -> list[Case]:
    """Makes Inception-v3 and its files in `directory` (1 GB) and the cases on them.

    The short form has frozen graphs alone: converters take minutes for the others.
    """
    with progress.task("Writing Inception-v3's checkpoints with TensorFlow", None):
        run_work(python("scripts.bench.groups.inception_files", directory), directory)
    frozen = directory / "peer.pb"
    with progress.task("Freezing its graph with freeze_graph", None):
        run_work(_freeze(directory / "v2" / "model.ckpt", frozen), directory)
    for form in FORMS:
        if _missing(form) is not None or (quick and form is not GRAPH):
            continue
        with progress.task(f"Writing .{form.name} with slimtune and its peer", None):
            for program in _writers(form, frozen, directory):
                run_work(program, directory)
    return cases_on(directory, INPUT, OUTPUT, SIZE)


def _freeze(checkpoint: Path, frozen: Path) -> Command:
    return python(
        "tensorflow.python.tools.freeze_graph",
        f"--input_meta_graph={checkpoint}.meta",
        "--input_binary=true",
        f"--input_checkpoint={checkpoint}",
        f"--output_node_names={OUTPUT}",
        f"--output_graph={frozen}",
    )


def _writers(form: Form, frozen: Path, directory: Path) -> list[Command]:
    """The programs that make slimtune's file and the peer's of the same frozen graph."""
    ours, theirs = _files(form, directory)
    written = [
        slimtune(
            *("convert", frozen, ours, "--outputs", OUTPUT),
            # What it answers is compared after it was timed.
            *("--optimize", "--verify", "none"),
        )
    ]
    if form.name == "tflite":
        written.append(python("scripts.bench.peers.write_tflite", frozen, INPUT, OUTPUT, theirs))
    if form.name == "onnx":
        names = (f"--inputs={INPUT}:0", f"--outputs={OUTPUT}:0", f"--opset={OPSET}")
        program = ("--graphdef", frozen, "--output", theirs, *names)
        written.append(python("tf2onnx.convert", *program))
    return written


def cases_on(directory: Path, input_name: str, output: str, size: int) -> list[Case]:
    """The cases on any net's files: whole batches, and single pictures.

    Args:
      directory: holds `ours` and `peer` with each form's ending.
      input_name: node of the pictures.
      output: node of the probabilities.
      size: height and width of a picture.
    """
    return [
        _case(form, directory, (f"{input_name}:0", f"{output}:0", str(size)), batch)
        for batch in (BATCH, 1)
        for form in FORMS
    ]


def _case(form: Form, directory: Path, arguments: tuple[str, ...], batch: int) -> Case:
    ours, theirs = (
        Step(function, (str(path), *arguments, str(batch)), repeat=REPEAT)
        for function, path in zip((form.step, form.peer_step), _files(form, directory), strict=True)
    )
    return Case(
        name=form.name if batch > 1 else f"{form.name}-one",
        title=f"{PICTURES} pictures through a .{form.name}, "
        + (f"{batch} at a time" if batch > 1 else "one at a time"),
        ours=Contender("slimtune", ours),
        peers=(Peer(form.peer, theirs, form.target),),
        check=same_probabilities,
        in_quick=form is GRAPH and batch > 1,
        skipped=_missing(form),
        items=(PICTURES, "pictures"),
    )


def _files(form: Form, directory: Path) -> tuple[Path, Path]:
    return directory / f"ours.{form.name}", directory / f"peer.{form.name}"


def _missing(form: Form) -> str | None:
    """Why a form cannot be measured here."""
    missing = [name for name in form.needs if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


def same_probabilities(printed: Mapping[str, str]) -> str:
    """Compares the first class of each picture, and every probability."""
    ours, theirs = (np.asarray(json.loads(text)) for text in printed.values())
    if ours.shape != theirs.shape or ours.ndim != 2:
        raise VerificationError(
            "The two did not answer the same pictures.",
            expected=f"probabilities {list(theirs.shape)}",
            received=list(ours.shape),
        )
    differences = np.abs(ours - theirs).max(axis=1) / theirs.max(axis=1)
    same_first = int((ours.argmax(axis=1) == theirs.argmax(axis=1)).sum())
    # Written so that NaN is refused.
    if same_first < len(ours) or not (differences <= TOLERANCE).all():
        raise VerificationError(
            "The two answer differently.",
            expected=f"the same first class of {len(ours)} pictures, "
            f"probabilities within {TOLERANCE:g} of the largest",
            received=f"{same_first} the same, a difference of {differences.max():.2g}",
        )
    return f"first class of {len(ours)} pictures, probabilities within {TOLERANCE:g} of the largest"
