"""Sums and copies of tensors between the processes, as operations of the graph of a step.

They run on the CPU of every process, over gRPC. Every process has to make the same ones in the
same order: they find each other by number.

Source:
  tf.raw_ops.CollectiveReduce, CollectiveBcastSend and CollectiveBcastRecv.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from exporters.runtime import load_tensorflow

PACKED_BYTES = 16 << 20
"""Gradients travel together up to this size: a message each would cost more than their bytes."""

_GROUP = 1


class Collectives:
    """What the processes of one cluster exchange."""

    def __init__(self, index: int, count: int) -> None:
        self._index = index
        self._count = count
        self._numbers = itertools.count(1)

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """The mean over all processes of each tensor, in the same bits everywhere.

        Args:
          tensors: of known shapes, of floats.
        """
        tf = load_tensorflow()
        found: list[Any] = []
        for group in _packed(tensors):
            sizes = [tensor.shape.num_elements() for tensor in group]
            flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in group], 0)
            with tf.device("/device:CPU:0"):
                mean = tf.raw_ops.CollectiveReduce(
                    input=flat,
                    group_size=self._count,
                    group_key=_GROUP,
                    instance_key=next(self._numbers),
                    merge_op="Add",
                    final_op="Div",
                    subdiv_offsets=[0],
                )
            parts = tf.split(mean, sizes)
            found += [
                tf.reshape(part, tensor.shape) for part, tensor in zip(parts, group, strict=True)
            ]
        return found

    def from_one(self, tensor: Any, sender: int = 0) -> Any:
        """One process's value of a tensor of known shape; the chief's where no other is named."""
        tf = load_tensorflow()
        about = {
            "group_size": self._count,
            "group_key": _GROUP,
            "instance_key": next(self._numbers),
            "shape": tensor.shape,
        }
        with tf.device("/device:CPU:0"):
            if self._index == sender:
                return tf.raw_ops.CollectiveBcastSend(input=tensor, **about)
            return tf.raw_ops.CollectiveBcastRecv(T=tensor.dtype.base_dtype, **about)


def _packed(tensors: Sequence[Any]) -> list[list[Any]]:
    """Neighbours of one dtype, together up to PACKED_BYTES."""
    groups: list[list[Any]] = []
    room = -math.inf
    for tensor in tensors:
        size = tensor.shape.num_elements() * tensor.dtype.size
        if room < size or groups[-1][0].dtype != tensor.dtype:
            groups.append([])
            room = PACKED_BYTES
        groups[-1].append(tensor)
        room -= size
    return groups
