"""The trunk as a graph of constants: pictures in, activations out, in the precision that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import GraphError
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph, as_graph
from exporters.runtime import GraphRunner
from exporters.values import Values
from finetune.training.precision import training_session_config, why_float32

TOLERANCE = 0.1
"""bfloat16 agrees where the activations differ by at most 10 %, root mean square of the difference
over that of the activations. It keeps 8 bits of each number; rounding adds up over the layers."""

FP32, BF16 = "fp32", "bf16"


@dataclass(frozen=True)
class Trunk:
    """The frozen part of a net.

    Attributes:
      graph_def: a graph without variables.
      input: tensor that takes pictures, float32 [batch, size, size, 3].
      output: tensor of the activations, float32 [batch, ...].
      shape: of the activations of one picture.
      precision: fp32, or bf16: convolutions and products are computed in bfloat16.
    """

    graph_def: GraphDef
    input: str
    output: str
    shape: tuple[int, ...]
    precision: str = FP32

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the graph with its weights, and of the precision, in hexadecimal."""
        message = self.graph_def.SerializeToString(deterministic=True)
        return sha256(f"{self.output} {self.precision} ".encode() + message).hexdigest()

    @property
    def dtype(self) -> Any:
        """In which dtype activations are kept: bfloat16 for pictures of them that are made in it."""
        import ml_dtypes

        is_spatial = self.precision == BF16 and len(self.shape) == 3 and self.shape[0] > 1
        return np.dtype(ml_dtypes.bfloat16 if is_spatial else np.float32)

    @cached_property
    def in_bfloat16(self) -> Trunk:
        """The same, computed in bfloat16: one object, for its digest takes long."""
        return replace(self, precision=BF16)

    def runner(self) -> GraphRunner:
        """Runs it; activations come as float32."""
        config = training_session_config(self.precision)
        return GraphRunner(self.graph_def, [self.input], [self.output], config=config)

    def activations(
        self, make_dataset: Callable[[], Any]
    ) -> Iterator[tuple[NDArray[Any], tuple[NDArray[Any], ...]]]:
        """The activations of each batch in the dtype they are kept in, and the rest of it.

        Args:
          make_dataset: as for GraphRunner.run_dataset.
        """
        with self.runner() as runner:
            for (found,), others in runner.run_dataset(make_dataset):
                yield np.asarray(found).astype(self.dtype, copy=False), others


def freeze_trunk(
    graph: Graph | Any, values: Values, pictures: str, output: str, shape: tuple[int, ...]
) -> Trunk:
    """The part of a graph from its pictures to a tensor, its variables turned into constants.

    Args:
      graph: the graph, variables in it.
      values: the variables by name.
      pictures: tensor of pictures, float32 [batch, size, size, 3].
      output: tensor of the activations.
      shape: of the activations of one picture.

    Raises:
      GraphError: the part cannot be frozen.
    """
    try:
        frozen = prepare(as_graph(graph), values, outputs=[output], inputs=[pictures])
    except GraphError as error:
        # The advice of an export does not help somebody who trains.
        raise GraphError(
            error.message,
            expected=error.expected,
            received=error.received,
            next_step="In a function of your own, build frozen layers with slim.batch_norm and "
            "slim.dropout, whose mode follows --trainable, or with is_training=False; or train "
            "everything with --trainable all.",
        ) from error
    return Trunk(frozen_graph_def(frozen), str(frozen.inputs[0]), str(frozen.outputs[0]), shape)


def with_precision(
    trunk: Trunk,
    make_dataset: Callable[[], Any],
    wanted: str,
    progress: Progress = SILENT,
) -> Trunk:
    """The trunk in bfloat16 where the CPU runs it and computes in it, and the activations agree.

    It is not timed: what is chosen must not depend on what else the machine does, for stored
    features of one precision are not those of the other.

    Args:
      trunk: in float32.
      make_dataset: called inside a tf.Graph; pictures to compare the activations of.
      wanted: auto, fp32 or bf16; bf16 is taken without comparing.
      progress: told what was chosen and why.
    """
    if wanted == BF16:
        return trunk.in_bfloat16
    if wanted == FP32 or why_float32() is not None:
        return trunk
    first, _ = next(trunk.activations(make_dataset))
    other, _ = next(trunk.in_bfloat16.activations(make_dataset))
    apart = relative_difference(first, other)
    agrees = apart <= TOLERANCE
    progress.say(
        f"Trunk in {BF16 if agrees else FP32}: activations in bf16 differ by {apart:.1%}, "
        f"{'within' if agrees else 'beyond'} {TOLERANCE:.0%}."
    )
    return trunk.in_bfloat16 if agrees else trunk


def relative_difference(expected: NDArray[Any], found: NDArray[Any]) -> float:
    """Root mean square of the difference over that of what was expected; infinite for no number."""
    expected, found = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    size = float(np.sqrt(np.mean(np.square(expected))))
    apart = float(np.sqrt(np.mean(np.square(expected - found))))
    if not np.isfinite(apart):
        return float("inf")
    return apart / size if size else (float("inf") if apart else 0.0)
