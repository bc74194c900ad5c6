"""Graphs as files: GraphDef, MetaGraphDef and SavedModel, binary or text, read into one thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from checkpoints.command_lines import shell_words
from checkpoints.containers import MAY_BE_GRAPHS, recognise
from checkpoints.errors import GraphError, NotFoundError, counted, listed
from checkpoints.files import broken_link, kind_of_file, reading
from checkpoints.messages import GraphDef, MetaGraphDef, NodeDef, OpDef, SavedModel
from checkpoints.text_messages import fill_from_text
from exporters.names import TensorName, is_control, node_of, tensor_of
from exporters.recognise import (
    GraphKind,
    kind_of_binary,
    kind_of_text,
    text_of,
)

_MESSAGES: dict[GraphKind, Any] = {
    "graph-def": GraphDef,
    "meta-graph": MetaGraphDef,
    "saved-model": SavedModel,
}
_READABLE = "a GraphDef, MetaGraphDef or SavedModel, binary or text (.pb, .pbtxt, .meta)"
_SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
_ENDINGS = (".pb", ".pbtxt", ".meta")
_SERVE = "serve"
_AGAIN = "Copy or export the file again."

_DTYPE_LISTS = ("output_types", "component_types", "Tout", "out_types")
_DTYPES = ("DstT", "dtype", "T")
"""Attributes that hold the dtypes of outputs, for graphs without definitions of their ops."""

_MAX_OUTPUTS = 1 << 16

MAX_MESSAGE_BYTES = 2**31 - 1
"""Protobuf's limit for one message, so for one graph in one file."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph, where it came from, and what came with it.

    Attributes:
      graph_def: the nodes, the function library and the versions. Not to be changed.
      kind: what the file held.
      path: the file, or None for a graph made in memory.
      meta_graph: the MetaGraphDef around it, where there is one: collections, signatures,
        the SaverDef, the definitions of its ops.
    """

    graph_def: GraphDef
    kind: GraphKind = "graph-def"
    path: Path | None = None
    meta_graph: MetaGraphDef | None = None

    @property
    def label(self) -> str:
        """How messages call it."""
        return "The graph" if self.path is None else str(self.path)

    @cached_property
    def nodes(self) -> dict[str, NodeDef]:
        """Name -> node, in the order of the file.

        Raises:
          GraphError: two nodes have one name, or one has none.
        """
        nodes = {node.name: node for node in self.graph_def.node}
        if "" in nodes:
            raise GraphError(
                f"{self.label} has a node without a name, a {nodes[''].op or 'no op'}."
            )
        if len(nodes) != len(self.graph_def.node):
            counts = Counter(node.name for node in self.graph_def.node)
            twice = [name for name, count in counts.items() if count > 1]
            raise GraphError(f"{self.label} has several nodes of one name:\n{listed(twice)}")
        return nodes

    @cached_property
    def consumers(self) -> dict[str, list[str]]:
        """Node -> the nodes that take one of its outputs as data, each once, in file order."""
        consumers: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for producer in dict.fromkeys(
                node_of(reference) for reference in node.input if not is_control(reference)
            ):
                consumers.setdefault(producer, []).append(name)
        return consumers

    @cached_property
    def users(self) -> dict[str, list[str]]:
        """Node -> the nodes that take it as an input of any kind, each once, in file order."""
        users: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for used in dict.fromkeys(map(node_of, node.input)):
                users.setdefault(used, []).append(name)
        return users

    @cached_property
    def functions(self) -> dict[str, Any]:
        """Name -> FunctionDef of the graph's library."""
        return {function.signature.name: function for function in self.graph_def.library.function}

    @cached_property
    def op_definitions(self) -> dict[str, OpDef]:
        """Op -> its definition, as far as the file brought them (a MetaGraphDef does)."""
        if self.meta_graph is None:
            return {}
        return {op.name: op for op in self.meta_graph.meta_info_def.stripped_op_list.op}

    @property
    def signatures(self) -> Mapping[str, Any]:
        """Key -> SignatureDef; empty where the file has none."""
        return {} if self.meta_graph is None else dict(self.meta_graph.signature_def)

    def node(self, name: str) -> NodeDef:
        """The node that another one takes an input from.

        Raises:
          GraphError: there is none of that name.
        """
        node = self.nodes.get(name)
        if node is None:
            takers = [node.name for node in self.graph_def.node if name in map(node_of, node.input)]
            raise GraphError(
                f"{self.label} has no node {name!r}, which these take as an input:\n{listed(takers)}",
                next_step="The file holds a part of a graph; export the whole of it.",
            )
        return node

    def data_inputs(self, name: str) -> list[TensorName]:
        """The tensors a node takes, control edges left out."""
        return [
            tensor_of(reference) for reference in self.node(name).input if not is_control(reference)
        ]

    def ancestors(self, names: Iterable[str], control: bool = False) -> set[str]:
        """Nodes that the named ones need, themselves included.

        Args:
          names: names of nodes; all are in the graph.
          control: whether control edges are followed too.

        Raises:
          GraphError: a node takes an input from a node that is not there.
        """
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            node = self.node(name)
            found.add(name)
            waiting.extend(
                node_of(reference)
                for reference in node.input
                if control or not is_control(reference)
            )
        return found

    def descendants(self, names: Iterable[str]) -> set[str]:
        """Nodes that need, or wait for, one of the named ones, themselves included."""
        found = set(names)
        waiting = list(found)
        while waiting:
            for user in self.users.get(waiting.pop(), ()):
                if user not in found:
                    found.add(user)
                    waiting.append(user)
        return found

    def dtype(self, tensor: TensorName) -> int | None:
        """The number of a tensor's dtype, or None where the file does not say it."""
        node = self.node(tensor.node)
        definition = self.op_definitions.get(node.op)
        if definition is not None:
            dtypes = _declared_dtypes(definition, node)
            return dtypes[tensor.output_index] if tensor.output_index < len(dtypes) else None
        for attribute in _DTYPE_LISTS:
            if attribute in node.attr:
                types = node.attr[attribute].list.type
                return int(types[tensor.output_index]) if tensor.output_index < len(types) else None
        for attribute in _DTYPES:
            if attribute in node.attr and node.attr[attribute].type:
                return int(node.attr[attribute].type)
        return None

    def shape(self, tensor: TensorName) -> tuple[int | None, ...] | None:
        """A tensor's static shape where the file holds it, None for an unknown dimension or rank."""
        node = self.node(tensor.node)
        if "_output_shapes" in node.attr:
            shapes = node.attr["_output_shapes"].list.shape
            if tensor.output_index < len(shapes):
                return dimensions(shapes[tensor.output_index])
        if "shape" in node.attr and node.attr["shape"].HasField("shape"):
            return dimensions(node.attr["shape"].shape)
        if node.op == "Const" and "value" in node.attr:
            return dimensions(node.attr["value"].tensor.tensor_shape)
        return None


def _declared_dtypes(definition: OpDef, node: NodeDef) -> list[int | None]:
    """The dtypes of a node's outputs as its op defines them; None for one that is not known."""
    values = {attribute.name: attribute.default_value for attribute in definition.attr}
    values |= dict(node.attr)
    dtypes: list[int | None] = []
    for output in definition.output_arg:
        if output.type_list_attr in values:
            dtypes += [int(dtype) for dtype in values[output.type_list_attr].list.type]
            continue
        count = values[output.number_attr].i if output.number_attr in values else 1
        dtype = values[output.type_attr].type if output.type_attr in values else output.type
        dtypes += [int(dtype) or None] * min(max(count, 0), _MAX_OUTPUTS)
    return dtypes


def dimensions(shape: Any) -> tuple[int | None, ...] | None:
    """A TensorShapeProto as a tuple: None for an unknown dimension, None for an unknown rank."""
    if shape.unknown_rank:
        return None
    return tuple(None if entry.size < 0 else int(entry.size) for entry in shape.dim)


def read_graph(path: str | Path, tags: Collection[str] | None = None) -> Graph:
    """Reads a graph from any file that holds one; the content decides, not the name.

    Args:
      path: a GraphDef, MetaGraphDef or SavedModel, binary or text; or a SavedModel's directory.
        A byte-order mark before a text is forgiven.
      tags: of a SavedModel: the graph with exactly these is taken; left out, the only one, or of
        several the one tagged "serve".

    Raises:
      NotFoundError: there is no such file.
      GraphError: the file is empty, cut, damaged, or something else; the message says what
        it looks like.
    """
    path = _file_of(Path(path))
    if path.stat().st_size > MAX_MESSAGE_BYTES:
        raise GraphError(
            f"{path} is too large for a graph.",
            expected=f"at most {MAX_MESSAGE_BYTES} bytes, protobuf's limit",
            received=f"{path.stat().st_size} bytes",
        )
    with reading(path):
        data = path.read_bytes()
    if not data:
        raise GraphError(
            f"{path} is empty.", expected=_READABLE, received="0 bytes", next_step=_AGAIN
        )
    text = text_of(data)
    kind = kind_of_binary(data) if text is None else kind_of_text(text)
    if kind is None:
        container = recognise(path).name
        raise GraphError(
            f"{path} is not a graph.",
            expected=_READABLE,
            received=container,
            # Of what may be a damaged graph, inspect has no more to tell.
            next_step=_AGAIN
            if container in MAY_BE_GRAPHS
            else f"See what it is: {shell_words('slimtune', 'inspect', path)}",
        )
    message = _parsed(path, kind, data, text)
    if kind == "graph-def":
        return Graph(message, kind, path)
    meta_graph = message if kind == "meta-graph" else _chosen(path, message, tags)
    return Graph(meta_graph.graph_def, kind, path, meta_graph)


def as_graph(source: Graph | GraphDef | str | Path | Any) -> Graph:
    """A graph from what a caller has.

    Args:
      source: a Graph already, a file, a GraphDef of any library, or a tf.Graph.

    Raises:
      GraphError: the file holds no graph.
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | Path):
        return read_graph(source)
    if isinstance(source, GraphDef):
        return Graph(source)
    if hasattr(source, "as_graph_def"):
        source = source.as_graph_def(add_shapes=True)
    # TensorFlow's own GraphDef is another class with the same bytes.
    return Graph(GraphDef.FromString(source.SerializeToString()))


def _file_of(path: Path) -> Path:
    if path.is_dir():
        for name in _SAVED_MODEL_FILES:
            if (path / name).is_file():
                return path / name
        graphs = sorted(file for file in path.iterdir() if file.suffix in _ENDINGS)
        raise GraphError(
            f"{path} is a directory without a graph.",
            expected="a SavedModel's directory, with saved_model.pb in it, or a file",
            received="a directory",
            next_step=f"Name a file in it: {shell_words(graphs[0])}"
            if graphs
            else f"See what is there: ls {shell_words(path)}",
        )
    if not path.exists():
        raise NotFoundError(
            f"{path} is not there.",
            expected=_READABLE,
            received=broken_link(path) or path,
            next_step=f"See what is there: ls {shell_words(path.parent)}",
        )
    kind = kind_of_file(path)
    if kind is not None:
        raise GraphError(
            f"{path} is {kind} and cannot be read as a file.",
            expected=_READABLE,
            received=kind,
            next_step="Copy what it gives into a file, and name that.",
        )
    return path


def _parsed(path: Path, kind: GraphKind, data: bytes, text: str | None) -> Any:
    message: Any = _MESSAGES[kind]()
    damage = _parse_binary(message, data) if text is None else fill_from_text(message, text)
    if damage is not None:
        name = type(message).__name__
        raise GraphError(
            f"{path} cannot be read as a {name}.",
            expected=f"a whole {name}, {'binary' if text is None else 'text'}",
            received=damage,
            next_step=_AGAIN,
        )
    return message


def _parse_binary(message: Any, data: bytes) -> str | None:
    """Fills a message; returns what is wrong with the bytes, or None."""
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError):
        return "bytes that end too early or are damaged"
    return None


def _chosen(path: Path, saved_model: SavedModel, wanted: Collection[str] | None) -> MetaGraphDef:
    meta_graphs = list(saved_model.meta_graphs)
    if wanted is None and len(meta_graphs) == 1:
        return meta_graphs[0]
    for meta_graph in meta_graphs:
        tags = set(meta_graph.meta_info_def.tags)
        if _SERVE in tags if wanted is None else tags == set(wanted):
            return meta_graph
    found = [", ".join(meta_graph.meta_info_def.tags) or "none" for meta_graph in meta_graphs]
    named = "no tag" if wanted is not None and not wanted else ", ".join(wanted or [f'"{_SERVE}"'])
    raise GraphError(
        f"{path} holds no graph to serve."
        if wanted is None
        else f"{path} holds no graph with the tags asked for.",
        expected=f"one graph, or one tagged {named}" if wanted is None else named,
        received=f"{counted(len(meta_graphs), 'graph')} with tags: {'; '.join(found)}",
    )
