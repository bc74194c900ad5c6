"""Writes an .onnx: tf2onnx converts, metadata goes into metadata_props, both sides are run."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from checkpoints.errors import UnsupportedError, UsageError
from checkpoints.files import atomic_file
from checkpoints.messages import GraphDef
from checkpoints.progress import Progress
from exporters.changing import Comparison, write_changed
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.names import METADATA_NODE
from exporters.optimising import optimise
from exporters.preparing import converted, prepared
from exporters.proofs.verdict import NOT_VERIFIED, Verification
from exporters.runtime import load_tensorflow
from exporters.runtimes.blockers import refuse_blockers
from exporters.runtimes.extras import load_extra, refuse_missing
from exporters.runtimes.memory import refuse_too_large
from exporters.runtimes.onnx_runner import LAYOUT
from exporters.runtimes.onnx_weights import set_weights_aside, write_model
from exporters.runtimes.runners import refuse_other_than_utf8
from exporters.runtimes.verification import refuse_structure, verify_other_runtime

OPSET = 17
"""What ONNX Runtime has taken since 1.13."""

_PICTURES = 4
"""The rank of a batch of pictures."""


def write(request: Request, progress: Progress) -> Conversion:
    """Converts the frozen graph and compares the answers.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      UsageError: the structure alone was to be proved, the layout does not fit the input, or the
        file's path is not UTF-8.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: the graph has what ONNX cannot hold, or the extra is not installed.
      VerificationError: the answers differ; nothing is left in place.
    """
    refuse_structure(request)
    if request.verify != "none":
        refuse_other_than_utf8(request.destination)
    num_nodes = 0

    def write_form(frozen: FrozenGraph, compare: Comparison | None) -> Verification:
        nonlocal num_nodes
        # tf2onnx would fold batch norms too, but only into weights that it holds.
        graph_def, weights = set_weights_aside(
            frozen if request.options.optimize else optimise(frozen)
        )
        model = _convert(frozen, graph_def, list(weights), request)
        with atomic_file(request.destination, overwrite=request.overwrite) as file:
            num_nodes = write_model(model, weights, file)
            file.flush()
            if request.verify == "none":
                return NOT_VERIFIED
            return verify_other_runtime(
                original,
                Path(file.name),
                form="onnx",
                label=str(request.destination),
                trust=request.trust,
                progress=progress,
            )

    with prepared(request, progress) as original:
        refuse_blockers(original, "onnx", request.inputs)
        refuse_too_large(original, "onnx", str(request.destination))
        refuse_missing("tf2onnx", "onnx", *(() if request.verify == "none" else ("onnxruntime",)))
        written, verification = write_changed(original, request, write_form, progress)
    size = request.destination.stat().st_size
    return converted(
        request, original, verification, num_bytes=size, nodes=num_nodes, written=written
    )


def _convert(frozen: FrozenGraph, graph_def: GraphDef, weights: list[str], request: Request) -> Any:
    """The ModelProto, its metadata in it; weights that were set aside are among its inputs."""
    tf = load_tensorflow()
    convert = load_extra("tf2onnx.convert")
    channels_first = _channels_first(frozen, request)
    with _quiet(), _explained(request):
        model, _ = convert.from_graph_def(
            tf.compat.v1.GraphDef.FromString(graph_def.SerializeToString()),
            name=(frozen.metadata and frozen.metadata.net) or "model",
            input_names=[*map(str, frozen.inputs), *weights],
            output_names=list(map(str, frozen.outputs)),
            opset=OPSET,
            inputs_as_nchw=channels_first or None,
        )
    texts = {LAYOUT: "nchw"} if channels_first else {}
    if frozen.metadata is not None:
        texts[METADATA_NODE] = frozen.metadata.to_text()
    for key, text in texts.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, text
    return model


def _channels_first(frozen: FrozenGraph, request: Request) -> list[str]:
    """The inputs that are to become [batch, channels, height, width]."""
    if request.options.layout != "nchw":
        return []
    found = [
        str(tensor)
        for tensor in frozen.inputs
        if len(frozen.graph.shape(tensor) or ()) == _PICTURES
    ]
    if not found:
        raise UsageError(
            "--layout nchw says how pictures are laid out, and no input takes any.",
            expected="an input [batch, height, width, channels]",
            received=", ".join(f"{t} {frozen.graph.shape(t)}" for t in frozen.inputs),
        )
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what tf2onnx says to itself from users, and what it deprecates."""
    logger = logging.getLogger("tf2onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


@contextmanager
def _explained(request: Request) -> Iterator[None]:
    """Turns what tf2onnx raises over a graph into an UnsupportedError."""
    try:
        yield
    except (RuntimeError, ValueError, KeyError, TypeError, AssertionError) as error:
        raise UnsupportedError(
            f"{request.destination}: tf2onnx cannot convert the graph.",
            received=str(error).strip().split("\n")[0],
            next_step="--outputs NAME leaves out what lies behind it.",
        ) from error
