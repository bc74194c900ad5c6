"""What a model of another runtime holds, as inspect shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from exporters.metadata import Metadata


class Tensor(NamedTuple):
    """An input or output of a model.

    Attributes:
      name: of the tensor.
      dtype: TensorFlow's name of its dtype; None where that is not known.
      shape: None for an open dimension; None for an unknown rank.
    """

    name: str
    dtype: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class ModelContents:
    """What is in a model.

    Attributes:
      inputs: the tensors to feed.
      outputs: the tensors that hold answers.
      ops: op -> how often it stands there, the most frequent first.
      parameters: how many numbers its weights hold.
      metadata: what slimtune wrote into it, or None.
      written_for: the version of the form, or None.
      written_by: the program that wrote it, or None.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    ops: Mapping[str, int]
    parameters: int
    metadata: Metadata | None
    written_for: str | None = None
    written_by: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The members that inspect adds to kind, path and files."""
        return {
            "inputs": [_as_json(tensor) for tensor in self.inputs],
            "outputs": [_as_json(tensor) for tensor in self.outputs],
            "ops": dict(self.ops),
            "parameters": self.parameters,
            "metadata": None if self.metadata is None else self.metadata.as_json(),
            "written_for": self.written_for,
            "written_by": self.written_by,
        }


def _as_json(tensor: Tensor) -> dict[str, Any]:
    shape = None if tensor.shape is None else list(tensor.shape)
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": shape}
