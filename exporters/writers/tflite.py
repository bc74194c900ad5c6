"""Writes a .tflite: TensorFlow's converter, metadata as associated files, both sides are run."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkpoints.errors import UnsupportedError
from checkpoints.files import atomic_file
from checkpoints.progress import Progress
from exporters.changing import Comparison, write_changed
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.frozen_file import frozen_graph_def
from exporters.metadata import Metadata
from exporters.optimising import optimise
from exporters.preparing import converted, prepared
from exporters.proofs.verdict import NOT_VERIFIED, Verification
from exporters.runtime import hold_stderr_back, load_tensorflow
from exporters.runtimes.bias_correction import correct_biases
from exporters.runtimes.blockers import refuse_blockers
from exporters.runtimes.extras import refuse_missing
from exporters.runtimes.memory import refuse_too_large
from exporters.runtimes.runners import refuse_other_than_utf8
from exporters.runtimes.tflite_runner import add_metadata
from exporters.runtimes.verification import fitted, refuse_structure, verify_other_runtime
from exporters.values import Array

_PICTURES = 4
"""The rank of a batch of pictures."""

_UNKNOWN_OP = re.compile(r"'tf\.(\w+)' op is neither a custom op nor a flex op")


def write(request: Request, progress: Progress) -> Conversion:
    """Converts the frozen graph and compares the answers.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      UsageError: the structure alone was to be proved, or the file's path is not UTF-8.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: the graph has what TFLite cannot hold, or the extra is not installed.
      VerificationError: the answers differ; nothing is left in place.
    """
    refuse_structure(request)
    if request.verify != "none":
        refuse_other_than_utf8(request.destination)
    batches: list[Array] = []

    def write_form(frozen: FrozenGraph, compare: Comparison | None) -> Verification:
        if batches:
            frozen = correct_biases(
                frozen if request.options.optimize else optimise(frozen),
                list(fitted(frozen, batches)),
                trust=request.trust,
            )
            progress.say(frozen.said[-1])
        model = _convert(frozen, batches, request)
        with atomic_file(request.destination, overwrite=request.overwrite) as file:
            file.write(model)
            file.flush()
            partial = Path(file.name)
            if frozen.metadata is not None:
                add_metadata(partial, frozen.metadata)
            if request.verify == "none":
                return NOT_VERIFIED
            return verify_other_runtime(
                original,
                partial,
                form="tflite",
                label=str(request.destination),
                batches=batches or None,
                is_quantized=request.options.quantize is not None,
                trust=request.trust,
                progress=progress,
            )

    with prepared(request, progress) as original:
        refuse_blockers(original, "tflite", request.inputs)
        refuse_too_large(original, "tflite", str(request.destination))
        if request.verify != "none":
            refuse_missing("ai_edge_litert")
        if request.options.calibration is not None:
            batches.extend(request.options.calibration(_described(original)))
        written, verification = write_changed(original, request, write_form, progress)
    size = request.destination.stat().st_size
    return converted(request, original, verification, num_bytes=size, nodes=None, written=written)


def _described(frozen: FrozenGraph) -> Metadata:
    """What the model says of itself, and the size of its pictures where it says nothing."""
    metadata = frozen.metadata or Metadata()
    shape = frozen.graph.shape(frozen.inputs[0]) or ()
    if metadata.image_size is None and len(shape) == _PICTURES and shape[1] == shape[2]:
        return replace(metadata, image_size=shape[1])
    return metadata


def _convert(frozen: FrozenGraph, batches: list[Array], request: Request) -> bytes:
    tf = load_tensorflow()
    graph_def = tf.compat.v1.GraphDef.FromString(
        frozen_graph_def(replace(frozen, metadata=None)).SerializeToString()
    )
    with _explained(request):
        # Through a function, since the converter of session graphs fixes the batch at 1.
        imported = tf.compat.v1.wrap_function(
            lambda: tf.compat.v1.import_graph_def(graph_def, name=""), []
        )
        tensors = imported.graph.get_tensor_by_name
        model = imported.prune(
            [tensors(str(tensor)) for tensor in frozen.inputs],
            [tensors(str(tensor)) for tensor in frozen.outputs],
        )
        converter = tf.lite.TFLiteConverter.from_concrete_functions([model], model)
        if request.options.quantize is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if batches:
            converter.representative_dataset = lambda: (
                [picture[None]] for batch in batches for picture in batch
            )
        with hold_stderr_back():
            converted_model: bytes = converter.convert()
    return converted_model


@contextmanager
def _explained(request: Request) -> Iterator[None]:
    """Turns what the converter raises over a graph into an UnsupportedError."""
    tf = load_tensorflow()
    from tensorflow.lite.python.convert import ConverterError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ConverterError, ValueError, TypeError, RuntimeError, tf.errors.OpError) as error:
        text: Any = str(error)
        ops = sorted(set(_UNKNOWN_OP.findall(text)))
        raise UnsupportedError(
            f"{request.destination}: the TFLite converter cannot convert the graph.",
            received=f"ops without a TFLite form: {', '.join(ops)}"
            if ops
            else text.strip().split("\n")[0],
            next_step="--outputs NAME leaves out what lies behind it.",
        ) from error
