"""Run verification of models of other runtimes: both sides run on the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from checkpoints.errors import UsageError, VerificationError
from checkpoints.progress import SILENT, Progress
from exporters.conversion import Request
from exporters.freezing import FrozenGraph
from exporters.proofs.made_up import made_up_inputs
from exporters.proofs.verdict import Verification
from exporters.proofs.verification import BATCH_SIZES, SEED, Answers
from exporters.rewrites.devices import without_devices
from exporters.runtime import GraphRunner
from exporters.runtimes.runners import ArrayRunner, open_runner
from exporters.values import Array

RTOL = 1e-3
ATOL = 1e-4
"""Other runtimes add up in another order: what they may differ by, as in numpy.allclose."""

QUANTIZED_SHARE = 0.25
"""What a model in 8 bits may differ by, as a share of the source's largest answer."""


def refuse_structure(request: Request) -> None:
    """Raises UsageError where the structure alone is to be proved: a converter makes another one."""
    if request.verify == "structure":
        raise UsageError(
            f"The structure of a {request.form} model is not that of its source.",
            expected="--verify auto, run or none",
            received="--verify structure",
        )


def verify_other_runtime(
    frozen: FrozenGraph,
    path: Path,
    *,
    form: str,
    label: str,
    batches: Iterable[Array] | None = None,
    is_quantized: bool = False,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Verification:
    """Runs the source with its variables in TensorFlow, and the written model in its runtime.

    Args:
      frozen: what was written.
      path: the written .tflite or .onnx.
      form: its form, "tflite" or "onnx".
      label: how messages call it.
      batches: inputs to compare on; left out, made-up ones at two batch sizes.
      is_quantized: whether it calculates in 8 bits, so that answers are near, not equal.
      trust: whether ops that reach files, the network or Python are run.
      progress: told of every batch.

    Raises:
      VerificationError: the answers differ.
      UnsupportedError: the runtime is not installed, or no input can be made up.
      GraphError: one of the two cannot be run.
    """
    inputs = list(map(str, frozen.inputs))
    outputs = tuple(map(str, frozen.outputs))
    values = {name: frozen.values[variable.key] for name, variable in frozen.variables.items()}
    pairs: list[tuple[list[Array], list[Array]]] = []
    with ExitStack() as stack:
        source = stack.enter_context(
            GraphRunner(without_devices(frozen.graph), inputs, outputs, trust=trust)
        )
        output = stack.enter_context(open_runner(path, form))
        task = stack.enter_context(progress.task("Comparing answers", None, "batches"))
        _refuse_other_names(output, tuple(inputs), outputs, label)
        output.select_outputs(outputs)
        source.assign(values)
        for feeds in _feeds(frozen, batches):
            pairs.append((source.run(feeds=feeds), output.run(feeds=feeds)))
            task.advance()
    answers = Answers(RTOL, ATOL)
    if is_quantized:
        largest = max(
            (float(np.abs(one).max()) for ours, _ in pairs for one in ours if one.size), default=0.0
        )
        answers = Answers(QUANTIZED_SHARE, QUANTIZED_SHARE * largest)
    for ours, theirs in pairs:
        for name, one, other in zip(outputs, ours, theirs, strict=True):
            answers.compare(name, np.asarray(one), np.asarray(other))
    return answers.verdict(label)


def _refuse_other_names(
    output: ArrayRunner, inputs: tuple[str, ...], outputs: tuple[str, ...], label: str
) -> None:
    lost = [
        name
        for name in (*inputs, *outputs)
        if name not in output.inputs and name not in output.outputs
    ]
    if lost:
        raise VerificationError(
            f"{label} has lost tensors of its source.",
            expected=", ".join((*inputs, *outputs)),
            received=", ".join((*output.inputs, *output.outputs)),
        )


def _feeds(frozen: FrozenGraph, batches: Iterable[Array] | None) -> Iterator[dict[str, Array]]:
    if batches is not None:
        for batch in fitted(frozen, batches):
            yield {str(frozen.inputs[0]): batch}
        return
    generator = np.random.default_rng(SEED)
    for batch_size in BATCH_SIZES:
        yield made_up_inputs(frozen.graph, frozen.inputs, batch_size, generator)


def fitted(frozen: FrozenGraph, batches: Iterable[Array]) -> Iterator[Array]:
    """Batches of the size that the graph's input has, where it has one; rests are left out."""
    shape = frozen.graph.shape(frozen.inputs[0])
    for batch in batches:
        size = (shape[0] if shape else None) or len(batch)
        for start in range(0, len(batch) - size + 1, size):
            yield batch[start : start + size]
