"""Cuts a graph at a tensor and puts a placeholder there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from checkpoints.errors import GraphError, UsageError
from checkpoints.messages import DataType, GraphDef, NodeDef, TensorShapeProto
from checkpoints.numbers import whole_number
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS, resolve_tensor
from exporters.names import TensorName, is_control, tensor_of
from exporters.ops import HANDLE_READS, HANDLE_VARIABLES, REFERENCE_VARIABLES
from exporters.rewrites.pipelines import pipeline_shape
from exporters.rewrites.prune import prune

Shape = tuple[int | None, ...]

_UNKNOWN = frozenset({"?", "-1", "None", "none"})


class InputRequest(NamedTuple):
    """An input that a person asked for.

    Attributes:
      name: of the node or tensor.
      shape: its shape, None for an open dimension; None where it was not said.
    """

    name: str
    shape: Shape | None = None


class Cut(NamedTuple):
    """A graph with placeholders where it was asked for them.

    Attributes:
      graph: the graph; the old one where nothing had to be changed.
      inputs: the placeholders' tensors, in the order they were asked for.
      said: what was done, a line each.
    """

    graph: Graph
    inputs: tuple[TensorName, ...]
    said: tuple[str, ...]


def parse_input(text: str) -> InputRequest:
    """Reads `NAME` or `NAME=?x224x224x3`.

    Raises:
      UsageError: what stands behind the equals sign is no shape, or one without any number in it.
    """
    name, equals, shape = text.partition("=")
    if not equals:
        return InputRequest(name.strip())
    sizes = [size.strip() for size in shape.split("x")]
    lengths = tuple(None if size in _UNKNOWN else whole_number(size) for size in sizes)
    if any(
        length is None and size not in _UNKNOWN for size, length in zip(sizes, lengths, strict=True)
    ):
        raise UsageError(
            f"{text} gives no shape.", expected="NAME=?x224x224x3, ? for the batch", received=shape
        )
    if 0 in lengths:
        raise UsageError(
            f"{text}: a dimension of 0 leaves nothing to feed.",
            expected="sizes of 1 and more, or ? for the batch",
            received=shape,
            next_step=f"--inputs {name.strip()}={_typed(tuple(size or None for size in lengths))}",
        )
    return InputRequest(name.strip(), lengths)


def cut_at_inputs(
    graph: Graph, outputs: Sequence[TensorName], requests: Sequence[InputRequest]
) -> Cut:
    """Makes placeholders of the requested inputs and prunes what lies behind them.

    A node that is a placeholder already stays, with the requested shape. A tensor other than a
    node's first gets a placeholder named `node_1`. The first dimension is the batch and left
    open where no shape was requested.

    Args:
      graph: a graph, whole or pruned to the outputs.
      outputs: the tensors it is pruned to.
      requests: inputs in the order wanted.

    Raises:
      GraphError: a name is not there, no output depends on it, another output of its node is
        needed too, the file does not say its dtype, or it cannot be fed.
      UsageError: one input has two shapes, or a placeholder one that cannot be its own.
    """
    needed = graph.ancestors([tensor.node for tensor in outputs])
    replaced: dict[TensorName, NodeDef] = {}
    inputs = []
    for request in each_once(graph, requests):
        tensor = resolve_tensor(graph, request.name, role="input")
        if tensor.node not in needed:
            raise _not_needed(graph, tensor, outputs)
        node = graph.nodes[tensor.node]
        _refuse_unfit(graph, tensor, request)
        if node.op in PLACEHOLDERS and request.shape in (None, graph.shape(tensor)):
            inputs.append(tensor)
        else:
            replaced[tensor] = _placeholder(graph, tensor, request.shape)
            inputs.append(TensorName(replaced[tensor].name))
    if not replaced:
        return Cut(graph, tuple(inputs), ())
    pruned = prune(_with_placeholders(graph, replaced), outputs).graph
    _refuse_other_outputs(pruned, replaced)
    said = (
        f"A placeholder stands for {tensor} ({graph.nodes[tensor.node].op})." for tensor in replaced
    )
    return Cut(pruned, tuple(inputs), tuple(said))


def refuse_unneeded(
    graph: Graph, pruned: Graph, outputs: Sequence[TensorName], requests: Sequence[InputRequest]
) -> None:
    """Raises GraphError where an input is in the whole graph, and not in what the outputs need."""
    for request in requests:
        tensor = resolve_tensor(graph, request.name, role="input")
        if tensor.node not in pruned.nodes:
            raise _not_needed(graph, tensor, outputs)


def _not_needed(graph: Graph, tensor: TensorName, outputs: Sequence[TensorName]) -> GraphError:
    """What to say of an input that lies aside."""
    return GraphError(
        f"{graph.label}: no output depends on the input {tensor}.",
        expected=f"a tensor that {', '.join(map(str, outputs))} depends on",
        received=tensor,
        next_step="Leave it out, or name the outputs that need it: --outputs NAME",
    )


def each_once(graph: Graph, requests: Sequence[InputRequest]) -> list[InputRequest]:
    """Each input once, in the order they were asked for; a variable with its own shape.

    Raises:
      GraphError: a name is not there.
      UsageError: one input has two shapes.
    """
    found: dict[TensorName, InputRequest] = {}
    for request in requests:
        tensor = resolve_tensor(graph, request.name, role="input")
        if request.shape is None and graph.nodes[tensor.node].op in REFERENCE_VARIABLES:
            request = request._replace(shape=graph.shape(tensor))
        other = found.get(tensor)
        if other is None or other.shape is None:
            found[tensor] = request
        elif request.shape not in (None, other.shape):
            raise UsageError(
                f"The input {tensor} is named twice, with other shapes.",
                expected="each input once",
                received=f"{_typed(other.shape)} and {_typed(request.shape or ())}",
                next_step=f"--inputs {tensor.node}={_typed(other.shape)}",
            )
    return list(found.values())


def _refuse_unfit(graph: Graph, tensor: TensorName, request: InputRequest) -> None:
    """Raises where a tensor cannot be fed, or a placeholder cannot have the shape it was given.

    Height and width, or a number of steps, may be others than the graph was built for; what
    the weights are made for may not.
    """
    is_variable = graph.nodes[tensor.node].op in HANDLE_VARIABLES
    if is_variable or graph.dtype(tensor) == DataType.DT_RESOURCE:
        read = next(
            (n for n in graph.consumers.get(tensor.node, ()) if graph.nodes[n].op in HANDLE_READS),
            None,
        )
        raise GraphError(
            f"{graph.label}: {tensor.node} ({graph.nodes[tensor.node].op}) gives the handle of a"
            " resource, which cannot be fed.",
            expected="a tensor of values",
            received=request.name,
            next_step=None if read is None else f"--inputs {read}",
        )
    own = graph.shape(tensor)
    if request.shape is None or own is None or graph.nodes[tensor.node].op not in PLACEHOLDERS:
        return
    same_rank = len(own) == len(request.shape)
    last = own[-1] if own else None
    if same_rank and (not own or None in (last, request.shape[-1]) or last == request.shape[-1]):
        return
    what = f"ends in {request.shape[-1]}, not {last}" if same_rank else "has another rank"
    raise UsageError(
        f"{graph.label}: the shape given for {tensor} {what}.",
        expected=f"a shape like the placeholder's, {_typed(own) or 'a single value'}",
        received=_typed(request.shape),
        next_step=f"--inputs {tensor.node}={_typed((None, *own[1:]))}"
        if own
        else f"--inputs {tensor.node}",
    )


def _typed(shape: Shape) -> str:
    return "x".join("?" if size is None else str(size) for size in shape)


def _placeholder(graph: Graph, tensor: TensorName, shape: Shape | None) -> NodeDef:
    name = tensor.node if tensor.output_index == 0 else f"{tensor.node}_{tensor.output_index}"
    if tensor.output_index != 0 and name in graph.nodes:
        raise GraphError(f"{graph.label} has a node {name} already, where {tensor} is to be cut.")
    dtype = graph.dtype(tensor)
    if dtype is None:
        raise GraphError(
            f"{graph.label} does not say the dtype of {tensor}, so no placeholder can stand there.",
            expected="a node with the attribute dtype or T, or a .meta, which defines its ops",
            received=graph.nodes[tensor.node].op,
        )
    if shape is None:
        known = pipeline_shape(graph, tensor)
        shape = (None, *known[1:]) if known else known
    placeholder = NodeDef(name=name, op="Placeholder")
    placeholder.attr["dtype"].type = dtype
    placeholder.attr["shape"].shape.CopyFrom(_shape_message(shape))
    return placeholder


def _shape_message(shape: Shape | None) -> TensorShapeProto:
    if shape is None:
        return TensorShapeProto(unknown_rank=True)
    sizes = [-1 if size is None else size for size in shape]
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


def _with_placeholders(graph: Graph, replaced: dict[TensorName, NodeDef]) -> Graph:
    changed = GraphDef()
    changed.versions.CopyFrom(graph.graph_def.versions)
    changed.library.CopyFrom(graph.graph_def.library)
    changed.node.extend(replaced.values())
    names = {placeholder.name for placeholder in replaced.values()}
    changed.node.extend(node for node in graph.graph_def.node if node.name not in names)
    for node in changed.node:
        references = [_redirected(reference, replaced) for reference in node.input]
        if references != list(node.input):
            node.input[:] = references
    return Graph(changed, graph.kind, graph.path, graph.meta_graph)


def _redirected(reference: str, replaced: dict[TensorName, NodeDef]) -> str:
    if is_control(reference):
        return reference
    placeholder = replaced.get(tensor_of(reference))
    return reference if placeholder is None else placeholder.name


def _refuse_other_outputs(graph: Graph, replaced: dict[TensorName, NodeDef]) -> None:
    """A node that was cut at one output has no others any more."""
    names = {placeholder.name for placeholder in replaced.values()}
    for name in graph.nodes:
        for tensor in graph.data_inputs(name):
            if tensor.node in names and tensor.output_index > 0:
                raise GraphError(
                    f"{graph.label}: {name} needs {tensor}, and {tensor.node} was cut.",
                    next_step=f"Cut there too: --inputs {tensor.node},{tensor}",
                )
