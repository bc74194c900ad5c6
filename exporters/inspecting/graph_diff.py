"""Two graphs compared, node by node: `exporters.diff`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from checkpoints.comparing import refuse_tolerances
from checkpoints.differences import Figures, compare_arrays, compare_strings
from checkpoints.errors import SlimtuneError
from checkpoints.messages import FunctionDef, NodeDef, is_same
from checkpoints.progress import SILENT, Progress
from checkpoints.tensors import as_strings, little_endian_bytes
from exporters.constants import Array, constant_value
from exporters.graph import MAX_MESSAGE_BYTES, Graph, read_graph
from exporters.names import is_control, node_of, reference_to, tensor_of
from exporters.ops import COLOCATION_ATTRIBUTE, DROPPED_ATTRIBUTES, SESSION_ATTRIBUTE
from exporters.rewrites.function_values import in_order

Verdict: TypeAlias = Literal[
    "op", "inputs", "attributes", "dtype-or-shape", "values", "nan", "swapped", "unreadable"
]

_PLACEMENT = frozenset({COLOCATION_ATTRIBUTE, SESSION_ATTRIBUTE, *DROPPED_ATTRIBUTES})
"""Attributes that say where nodes stand and what shapes were inferred, not what they compute."""

_MAX_TEXT = 100


@dataclass(frozen=True)
class NodeDifference:
    """A node that is in both graphs and is not the same.

    Attributes:
      name: of the node.
      op: in A.
      verdict: what differs first: the op, what it takes, an attribute; of a constant its dtype
        or shape, or its values: "nan" where NaNs stand at other places, "swapped" where it and
        another constant exchanged their values, else "values"; "unreadable" where one is damaged.
      detail: what differs, in words; empty where the figures say it.
      figures: of constants of one shape: how far the values differ.
      swapped_with: the constant whose values in A it has in B, and the other way round.
    """

    name: str
    op: str
    verdict: Verdict
    detail: str = ""
    figures: Figures | None = None
    swapped_with: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The object in the list `different_nodes`."""
        figures = {} if self.figures is None else self.figures.as_json()
        swapped = {} if self.swapped_with is None else {"swapped_with": self.swapped_with}
        detail = {"detail": self.detail} if self.detail else {}
        found = {"name": self.name, "op": self.op, "verdict": self.verdict}
        return {**found, **detail, **figures, **swapped}


@dataclass(frozen=True)
class GraphDifference:
    """What differs between two graphs A and B.

    Attributes:
      a: the path of A.
      b: the path of B.
      only_in_a: (name, op) of nodes that B lacks, producers first.
      only_in_b: (name, op) of nodes that A lacks, producers first.
      nodes: nodes that are not the same, producers first.
      functions: functions of the libraries that are not the same, or only in one of the two.
      versions: producer and lowest consumer of A and of B, where they differ; else empty.
      num_same: how many nodes are the same.
    """

    a: str
    b: str
    only_in_a: tuple[tuple[str, str], ...]
    only_in_b: tuple[tuple[str, str], ...]
    nodes: tuple[NodeDifference, ...]
    functions: tuple[str, ...]
    versions: tuple[tuple[int, int], ...]
    num_same: int

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        return not (
            self.only_in_a or self.only_in_b or self.nodes or self.functions or self.versions
        )

    @property
    def first(self) -> NodeDifference | None:
        """The first node that is not the same."""
        return self.nodes[0] if self.nodes else None

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.is_equal,
            "same": self.num_same,
            "first": None if self.first is None else self.first.as_json(),
            "only_in_a": [{"name": name, "op": op} for name, op in self.only_in_a],
            "only_in_b": [{"name": name, "op": op} for name, op in self.only_in_b],
            "different_nodes": [difference.as_json() for difference in self.nodes],
            "different_functions": list(self.functions),
            "different_versions": [list(versions) for versions in self.versions],
        }


def diff(
    a: str | os.PathLike[str] | Graph,
    b: str | os.PathLike[str] | Graph,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    progress: Progress = SILENT,
) -> GraphDifference:
    """Compares two graphs in any forms, node by node and constant by constant.

    Nodes go by their names; in which order a file has them, on which device they stand and which
    shapes were inferred for them does not count. Two numbers of a constant are the same where
    |a - b| <= atol + rtol * |b|; a NaN is the same as a NaN.

    Args:
      a: a GraphDef, MetaGraphDef or SavedModel; or a graph that was read already.
      b: another.
      rtol: relative tolerance.
      atol: absolute tolerance.
      progress: told how far it is.

    Raises:
      NotFoundError: a file is not there.
      GraphError: a file holds no graph.
      UsageError: a tolerance is negative or no number.
    """
    refuse_tolerances(rtol, atol)
    first, second = (
        given if isinstance(given, Graph) else read_graph(Path(given)) for given in (a, b)
    )
    found: list[NodeDifference] = []
    only_in_a: list[tuple[str, str]] = []
    num_same = 0
    with progress.task("Comparing", len(first.nodes), "nodes") as task:
        for node in in_order(first.nodes.values(), node_of):
            other = second.nodes.get(node.name)
            if other is None:
                only_in_a.append((node.name, node.op))
            else:
                difference = _node_difference(node, other, rtol, atol)
                found += [] if difference is None else [difference]
                num_same += difference is None
            task.advance()
    only_in_b = [
        (node.name, node.op)
        for node in in_order(second.nodes.values(), node_of)
        if node.name not in first.nodes
    ]
    return GraphDifference(
        first.label,
        second.label,
        tuple(only_in_a),
        tuple(only_in_b),
        tuple(_with_swaps(first, second, found)),
        tuple(_different_functions(first, second)),
        _versions(first, second),
        num_same,
    )


def _node_difference(a: NodeDef, b: NodeDef, rtol: float, atol: float) -> NodeDifference | None:
    """How two nodes of one name differ; None where they do not."""
    if a.op != b.op:
        return NodeDifference(a.name, a.op, "op", f"{a.op} became {b.op}")
    inputs = _inputs(a), _inputs(b)
    if inputs[0] != inputs[1]:
        return NodeDifference(a.name, a.op, "inputs", _of_inputs(*inputs))
    keys = sorted((set(a.attr) | set(b.attr)) - _PLACEMENT)
    if a.op == "Const":
        difference = _value_difference(a, b, rtol, atol)
        if difference is not None:
            return difference
        keys = [key for key in keys if key != "value"]
    for key in keys:
        if key not in a.attr or key not in b.attr:
            where = "A" if key in a.attr else "B"
            return NodeDifference(a.name, a.op, "attributes", f"{key} is in {where} only")
        if not is_same(a.attr[key], b.attr[key]):
            detail = f"{key}: {_short(a.attr[key])} became {_short(b.attr[key])}"
            return NodeDifference(a.name, a.op, "attributes", detail)
    return None


def _inputs(node: NodeDef) -> tuple[list[str], list[str]]:
    """Tensors in order, and the nodes that are only waited for."""
    data = [reference_to(tensor_of(entry)) for entry in node.input if not is_control(entry)]
    return data, sorted(entry for entry in node.input if is_control(entry))


def _of_inputs(a: tuple[list[str], list[str]], b: tuple[list[str], list[str]]) -> str:
    for index, pair in enumerate(zip(a[0], b[0], strict=False)):
        if pair[0] != pair[1]:
            return f"input {index}: {pair[0]} became {pair[1]}"
    if len(a[0]) != len(b[0]):
        return f"{len(a[0])} inputs became {len(b[0])}"
    return f"it waits for {', '.join(a[1]) or 'nothing'}, in B for {', '.join(b[1]) or 'nothing'}"


def _value_difference(a: NodeDef, b: NodeDef, rtol: float, atol: float) -> NodeDifference | None:
    has_value = "value" in a.attr, "value" in b.attr
    if has_value == (False, False) or (
        all(has_value) and is_same(a.attr["value"], b.attr["value"])
    ):
        return None
    try:
        ours, theirs = constant_value(a), constant_value(b)
    except SlimtuneError as error:
        return NodeDifference(a.name, a.op, "unreadable", error.message)
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        detail = f"{_header(ours)} became {_header(theirs)}"
        return NodeDifference(a.name, a.op, "dtype-or-shape", detail)
    if ours.nbytes > MAX_MESSAGE_BYTES:
        # One value that stands for more elements than a file could hold.
        return NodeDifference(a.name, a.op, "values", "a value for all elements became another")
    if ours.dtype == object:
        figures = compare_strings(as_strings(ours, a.name), as_strings(theirs, b.name))
    else:
        figures = compare_arrays(ours, theirs, rtol, atol)
    if not figures.num_different:
        return None
    return NodeDifference(a.name, a.op, "nan" if figures.num_nan else "values", figures=figures)


def _with_swaps(
    first: Graph, second: Graph, found: list[NodeDifference]
) -> Iterable[NodeDifference]:
    """Finds pairs of constants that exchanged their values."""
    changed = [entry.name for entry in found if entry.figures is not None]
    ours = {name: _digest(constant_value(first.nodes[name])) for name in changed}
    theirs = {name: _digest(constant_value(second.nodes[name])) for name in changed}
    by_digest: dict[bytes, list[str]] = {}
    for name, digest in ours.items():
        by_digest.setdefault(digest, []).append(name)
    partners: dict[str, str] = {}
    for name in changed:
        for other in by_digest.get(theirs[name], ()):
            if theirs[other] == ours[name] and not {name, other} & partners.keys():
                partners |= {name: other, other: name}
    return [
        replace(entry, verdict="swapped", swapped_with=partners[entry.name])
        if entry.name in partners
        else entry
        for entry in found
    ]


def _digest(value: Array) -> bytes:
    """Of dtype, shape and values."""
    hashed = hashlib.blake2b(f"{value.dtype} {value.shape}".encode(), digest_size=16)
    if value.dtype == object:
        for text in as_strings(value, ""):
            hashed.update(len(text).to_bytes(8, "little") + text)
    else:
        hashed.update(little_endian_bytes(np.asarray(value)))
    return hashed.digest()


def _different_functions(first: Graph, second: Graph) -> list[str]:
    names = [*first.functions, *(name for name in second.functions if name not in first.functions)]
    return [
        name
        for name in names
        if _unplaced(first.functions.get(name)) != _unplaced(second.functions.get(name))
    ]


def _unplaced(function: FunctionDef | None) -> bytes | None:
    if function is None:
        return None
    copy = FunctionDef()
    copy.CopyFrom(function)
    for node in copy.node_def:
        node.device = ""
        for attribute in _PLACEMENT:
            node.attr.pop(attribute, None)
    return bytes(copy.SerializeToString(deterministic=True))


def _versions(first: Graph, second: Graph) -> tuple[tuple[int, int], ...]:
    versions = [
        (graph.graph_def.versions.producer, graph.graph_def.versions.min_consumer)
        for graph in (first, second)
    ]
    return () if versions[0] == versions[1] else tuple(versions)


def _header(value: Array) -> str:
    return f"{value.dtype.name if value.dtype != object else 'string'} {list(value.shape)}"


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
