"""Variables of a graph that are parts of variables in a checkpoint.

A partitioned variable (tf.compat.v1.get_variable with a partitioner) is several variables in the
graph, w/part_0, w/part_1 and so on, and one in the checkpoint, w, of which each part is a slice.

Source:
  SaveSliceInfoDef in TensorFlow's variable.proto; the slices in the inputs of a Saver's ops, as in
  `5 4 0,3:0,4`: the whole shape, then start and length in each dimension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkpoints.errors import GraphError
from checkpoints.messages import NodeDef, VariableDef
from checkpoints.tensors import Array, Variable, describe, little_endian_bytes
from exporters.graph import Graph, dimensions
from exporters.names import node_of
from exporters.ops import VARIABLES
from exporters.savers.fit import variable_behind
from exporters.savers.nodes import read_saver
from exporters.values import Values, bytes_of, header_of

_COLLECTION = "variables"
_PART = re.compile(r"(.+)/part_(\d{1,18})")


@dataclass(frozen=True)
class Part:
    """A slice of a variable of a checkpoint.

    Attributes:
      key: the variable.
      whole: its shape.
      extents: start and length in each dimension.
    """

    key: str
    whole: tuple[int, ...]
    extents: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The slice's shape."""
        return tuple(length for _, length in self.extents)

    @property
    def slices(self) -> tuple[slice, ...]:
        """What numpy takes it by."""
        return tuple(slice(start, start + length) for start, length in self.extents)


class ValuesWithParts(Mapping[str, Array]):
    """Values in which slices of variables have names of their own.

    Attributes:
      parts: name -> the slice it stands for.
      variables: name, dtype and shape of everything, by name.
    """

    def __init__(self, values: Values, parts: Mapping[str, Part]) -> None:
        """Takes values and the names of slices, which are no names among the values."""
        self._values = values
        self.parts = parts
        self.variables: dict[str, Variable] = {}
        for name in values:
            header = header_of(values, name)
            self.variables[name] = describe(name, header.dtype, header.shape)
        for name, part in parts.items():
            dtype = header_of(values, part.key).dtype
            self.variables[name] = describe(name, dtype, part.shape)

    def __getitem__(self, name: str) -> Array:
        part = self.parts.get(name)
        if part is None:
            return self._values[name]
        whole: Array = np.asarray(self._values[part.key])
        return whole[part.slices]

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable or slice of numbers: C order, little-endian."""
        if name in self.parts:
            return little_endian_bytes(self[name])
        return bytes_of(self._values, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables


def with_parts(graph: Graph, pruned: Graph, values: Values) -> Values:
    """The values, with those of partitioned variables cut as the graph has them.

    Args:
      graph: the whole graph, whose Saver or collections say which variable is a slice of which.
      pruned: the part of it whose variables are wanted.
      values: the variables by name.

    Returns:
      The values themselves where no variable of the graph is a slice of one of them.
    """
    nodes = [
        node for node in pruned.nodes.values() if node.op in VARIABLES and node.name not in values
    ]
    if not nodes:
        return values
    known = {**_parts_of_collections(graph), **_parts_of_saver(graph)}
    parts = {}
    for node in nodes:
        part = known.get(node.name)
        if (
            part is not None
            and part.key in values
            and (header_of(values, part.key).shape == part.whole)
        ):
            parts[node.name] = part
    parts |= _parts_by_name([node for node in nodes if node.name not in parts], values)
    return ValuesWithParts(values, parts) if parts else values


def _parts_of_collections(graph: Graph) -> dict[str, Part]:
    """Variable's node -> its slice, as the VariableDefs of a .meta have it."""
    found: dict[str, Part] = {}
    collections = {} if graph.meta_graph is None else graph.meta_graph.collection_def
    if _COLLECTION not in collections:
        return found
    for data in collections[_COLLECTION].bytes_list.value:
        definition = _variable_def(data)
        if definition is not None and definition.HasField("save_slice_info_def"):
            info = definition.save_slice_info_def
            extents = tuple(zip(info.var_offset, info.var_shape, strict=False))
            part = Part(info.full_name, tuple(info.full_shape), extents)
            if _is_sound(part):
                found[node_of(definition.variable_name)] = part
    return found


def _parts_of_saver(graph: Graph) -> dict[str, Part]:
    """Variable's node -> its slice, as the inputs of the graph's save ops have it."""
    try:
        saver = read_saver(graph)
    except GraphError:
        return {}
    found = {}
    for entries in () if saver is None else saver.saves:
        for key, text, reference in zip(entries.keys, entries.slices, entries.tensors, strict=True):
            part = _parsed(key.decode("utf-8", "replace"), text.decode("utf-8", "replace"))
            variable = variable_behind(graph, reference)
            if part is not None and variable is not None:
                found[variable.name] = part
    return found


def _parts_by_name(nodes: list[NodeDef], values: Values) -> dict[str, Part]:
    """Parts of variables whose sizes along one dimension add up to a variable of the checkpoint."""
    groups: dict[str, dict[int, NodeDef]] = {}
    for node in nodes:
        named = _PART.fullmatch(node.name)
        if named is not None and named.group(1) in values:
            groups.setdefault(named.group(1), {})[int(named.group(2))] = node
    found: dict[str, Part] = {}
    for key, members in groups.items():
        whole = header_of(values, key).shape
        ordered = [members[index] for index in sorted(members)]
        if sorted(members) == list(range(len(members))):
            found |= _stacked(key, whole, ordered)
    return found


def _stacked(key: str, whole: tuple[int, ...], nodes: list[NodeDef]) -> dict[str, Part]:
    shapes = [
        dimensions(node.attr["shape"].shape) if "shape" in node.attr else None for node in nodes
    ]
    for axis in range(len(whole)):
        sizes = []
        for shape in shapes:
            if shape is None or len(shape) != len(whole) or shape[axis] is None:
                return {}
            if shape[:axis] + shape[axis + 1 :] != whole[:axis] + whole[axis + 1 :]:
                break
            sizes.append(int(shape[axis] or 0))
        if len(sizes) == len(nodes) and sum(sizes) == whole[axis]:
            starts = np.cumsum([0, *sizes[:-1]]).tolist()
            return {
                node.name: Part(
                    key,
                    whole,
                    tuple(
                        (start, size) if dimension == axis else (0, length)
                        for dimension, length in enumerate(whole)
                    ),
                )
                for node, start, size in zip(nodes, starts, sizes, strict=True)
            }
    return {}


def _parsed(key: str, text: str) -> Part | None:
    """The slice that a text like `5 4 0,3:0,4` means; None for "", which is the whole."""
    *sizes, extents = text.split(" ")
    pairs = [entry.split(",") for entry in extents.split(":")] if extents else []
    try:
        whole = tuple(map(int, sizes))
        numbers = tuple(
            (0, size) if pair == ["-"] else (int(pair[0]), int(pair[1]))
            for pair, size in zip(pairs, whole, strict=True)
        )
    except (ValueError, IndexError):
        return None
    part = Part(key, whole, numbers)
    return part if pairs and _is_sound(part) else None


def _is_sound(part: Part) -> bool:
    return len(part.extents) == len(part.whole) and all(
        start >= 0 and 0 <= length <= size - start
        for (start, length), size in zip(part.extents, part.whole, strict=True)
    )


def _variable_def(data: bytes) -> Any | None:
    from google.protobuf.message import DecodeError

    try:
        return VariableDef.FromString(data)
    except DecodeError:
        return None
