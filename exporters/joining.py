"""Puts a preprocessing graph before a model, so that it takes encoded pictures."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from checkpoints.errors import GraphError, UnsupportedError, listed
from checkpoints.messages import DataType, GraphDef, NodeDef
from checkpoints.progress import SILENT, Progress
from exporters.freezing import FrozenGraph
from exporters.graph import Graph, read_graph
from exporters.metadata import IN_GRAPH, Metadata
from exporters.names import TensorName, is_control, node_of, tensor_of
from exporters.optimising import with_constants
from exporters.options import PreprocessingGraph
from exporters.proofs.verdict import Verification
from exporters.proofs.verification import ATOL, RTOL, SEED, Answers
from exporters.rewrites.devices import without_devices
from exporters.rewrites.prune import prune
from exporters.runtime import GraphRunner
from exporters.values import Array

ENCODED = "encoded"
IMAGES = "images"
"""Nodes of a preprocessing graph: string [batch], and float32 [batch, height, width, 3]."""

_SCOPE = "preprocessing"
_PICTURE_SIZES = ((120, 160), (97, 61))


@dataclass(frozen=True)
class Joined:
    """A model behind its preprocessing.

    Attributes:
      frozen: the whole.
      preprocessing: the first part alone.
    """

    frozen: FrozenGraph
    preprocessing: GraphDef


def join(frozen: FrozenGraph, make_preprocessing: PreprocessingGraph) -> Joined:
    """Puts preprocessing before a model's input.

    The new input is a placeholder of encoded pictures, string [batch]; the old one becomes an
    Identity of the same name that holds the preprocessed pictures.

    Args:
      frozen: a model whose first input takes pictures.
      make_preprocessing: makes the graph, of what the model says of itself.

    Raises:
      GraphError: the model does not say how pictures become its input, or has no input for them.
      UnsupportedError: both graphs have a function of one name.
    """
    metadata = frozen.metadata
    if metadata is None or metadata.preprocessing is None or metadata.input is None:
        raise GraphError(
            "The model does not say how pictures become its input.",
            expected="metadata with a preprocessing and an input, as slimtune writes it",
            next_step="Convert the run it was made from, or a checkpoint with --net.",
        )
    images = tensor_of(metadata.input)
    constant = with_constants(frozen)
    node = constant.graph.node(images.node)
    if images not in frozen.inputs or node.op != "Placeholder":
        raise GraphError(
            f"{images} is no placeholder, so nothing can be put before it.", received=node.op
        )
    preprocessing = make_preprocessing(metadata)
    name = ENCODED
    while name in constant.graph.nodes:
        name += "_"
    changed = GraphDef()
    changed.node.extend(_renamed(preprocessing, name))
    for old in constant.graph.nodes.values():
        changed.node.append(_identity(images.node) if old.name == images.node else old)
    changed.versions.CopyFrom(constant.graph.graph_def.versions)
    _join_libraries(changed, constant.graph, preprocessing)
    graph = Graph(changed, "graph-def", constant.graph.path, constant.graph.meta_graph)
    # What TensorFlow builds beside the preprocessing, its outcome does not need.
    graph = prune(graph, frozen.outputs).graph
    others = tuple(tensor for tensor in frozen.inputs if tensor != images)
    whole = replace(
        constant,
        source=graph,
        graph=graph,
        inputs=(TensorName(name), *others),
        metadata=_baked(metadata, name),
        said=(*frozen.said, f"Preprocessing stands before {images}: {name} takes pictures."),
    )
    return Joined(whole, preprocessing)


def verify_joined(
    frozen: FrozenGraph,
    joined: Joined,
    path: Path,
    *,
    label: str,
    trust: bool = False,
    rtol: float = RTOL,
    atol: float = ATOL,
    progress: Progress = SILENT,
) -> Verification:
    """Runs preprocessing, then the source, on made-up pictures, and compares with the whole file.

    Args:
      frozen: the model as it was prepared.
      joined: what was written.
      path: the written .pb.
      label: how messages call it.
      trust: whether ops that reach files, the network or Python are run.
      rtol: what difference is allowed in proportion to the source's answer.
      atol: and beside it.
      progress: told of every picture.

    Raises:
      VerificationError: the answers differ.
      GraphError: a graph cannot be run.
    """
    written = replace(read_graph(path), path=Path(label))
    images = tensor_of(joined_input(frozen))
    inputs, outputs = [str(images)], list(map(str, frozen.outputs))
    values = {name: frozen.values[variable.key] for name, variable in frozen.variables.items()}
    answers = Answers(rtol, atol)
    with (
        GraphRunner(joined.preprocessing, [ENCODED], [IMAGES], trust=trust) as first,
        GraphRunner(without_devices(frozen.graph), inputs, outputs, trust=trust) as second,
        GraphRunner(written, [str(joined.frozen.inputs[0])], outputs, trust=trust) as whole,
        progress.task("Comparing answers", len(_PICTURE_SIZES), "pictures") as task,
    ):
        second.assign(values)
        for picture in _pictures():
            encoded = np.array([picture], object)
            ours, theirs = second.run(first.run(encoded)[0]), whole.run(encoded)
            for name, one, other in zip(outputs, ours, theirs, strict=True):
                answers.compare(name, np.asarray(one), np.asarray(other))
            task.advance()
    return answers.verdict(label)


def joined_input(frozen: FrozenGraph) -> str:
    """The tensor that takes pictures, as the model says it."""
    if frozen.metadata is not None and frozen.metadata.input is not None:
        return frozen.metadata.input
    return str(frozen.inputs[0])


def _baked(metadata: Metadata, encoded: str) -> Metadata:
    """The metadata of the whole: its preprocessing names the tensor that holds its outcome."""
    preprocessing = {**(metadata.preprocessing or {}), IN_GRAPH: metadata.input}
    return replace(metadata, input=f"{encoded}:0", preprocessing=preprocessing)


def _renamed(preprocessing: GraphDef, encoded: str) -> Iterator[NodeDef]:
    """The nodes of the preprocessing, in a scope of their own but for the placeholder."""

    def in_scope(reference: str) -> str:
        if is_control(reference):
            return f"^{in_scope(node_of(reference))}"
        if node_of(reference) == ENCODED:
            return reference.replace(ENCODED, encoded, 1)
        return f"{_SCOPE}/{reference}"

    for node in preprocessing.node:
        renamed = NodeDef()
        renamed.CopyFrom(node)
        renamed.name = in_scope(node.name)
        renamed.input[:] = [in_scope(reference) for reference in node.input]
        yield renamed


def _identity(name: str) -> NodeDef:
    node = NodeDef(name=name, op="Identity", input=[f"{_SCOPE}/{IMAGES}"])
    node.attr["T"].type = DataType.DT_FLOAT
    return node


def _join_libraries(changed: GraphDef, graph: Graph, preprocessing: GraphDef) -> None:
    names = {function.signature.name for function in preprocessing.library.function}
    common = sorted(names & graph.functions.keys())
    if common:
        raise UnsupportedError(
            f"Model and preprocessing have functions of one name:\n{listed(common)}",
            next_step="Write the model without --with-preprocessing.",
        )
    changed.library.CopyFrom(graph.graph_def.library)
    changed.library.function.extend(preprocessing.library.function)
    changed.versions.min_consumer = max(
        changed.versions.min_consumer, preprocessing.versions.min_consumer
    )
    # Its functions are of today's TensorFlow.
    changed.versions.producer = max(changed.versions.producer, preprocessing.versions.producer)


def _pictures() -> Iterator[bytes]:
    """Made-up PNG files: smooth colours with noise on top."""
    generator = np.random.default_rng(SEED)
    for height, width in _PICTURE_SIZES:
        slope = np.linspace(0, 1, height)[:, None, None] * generator.uniform(40, 200, 3)
        noise = generator.uniform(0, 55, (height, width, 3))
        yield _png((slope + noise).astype(np.uint8))


def _png(pixels: Array) -> bytes:
    """A PNG of uint8 [height, width, 3].

    Source:
      PNG specification, third edition: signature, IHDR, IDAT, IEND; filter 0 in every row.
    """
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
