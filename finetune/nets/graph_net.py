"""A net that is somebody's file: a frozen graph, or a .meta with its checkpoint, and a new head.

What lies between the pictures and the bottleneck is taken over, in inference mode, its weights
as variables under the file's own names; the rest is left out. A new dense layer on the bottleneck
is the head.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.errors import GraphError, UsageError, listed
from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Progress
from checkpoints.published import Net, Paper
from exporters.constant_values import ConstantValues
from exporters.freezing import prepare
from exporters.frozen_file import frozen_graph_def
from exporters.graph import Graph, as_graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs, resolve_tensor
from exporters.metadata import Metadata, read_metadata
from exporters.names import METADATA_NODE, TensorName, is_control, node_of, tensor_of
from exporters.rewrites.prune import prune
from exporters.runtime import load_tensorflow
from exporters.safety import refuse_unsafe, silence_prints
from exporters.shapes.sizes import Shape
from exporters.sources import find_source
from exporters.thawed.initialisers import initial_for
from exporters.thawed.weights import WeightConstant, find_weights
from exporters.values import Header
from finetune.nets.file_options import NetOptions
from finetune.preprocessing import Preprocessing
from finetune.slim import load_slim

SUFFIXES = (".pb", ".pbtxt", ".meta")
"""What files of graphs end in."""

HEAD = "Head"
BOTTLENECK = "bottleneck"
_LOGITS = "Logits"
_DEFAULT_PREPROCESSING = "inception"
_LAYERS = frozenset({"Conv2D", "MatMul", "BatchMatMulV2"})
_PAPER = Paper("a graph from a file", "its author", 0)


@dataclass(frozen=True, eq=False)
class GraphNet(Net):
    """The record of a net from a file; `build` is its builder.

    Attributes:
      graph: frozen, from pictures to bottleneck.
      input: tensor of the pictures.
      output: tensor of the bottleneck.
      weights: its constants that become variables.
      values: what they hold, by the variables' names.
    """

    graph: Graph | None = None
    input: str = ""
    output: str = ""
    weights: tuple[WeightConstant, ...] = ()
    values: ConstantValues | None = field(default=None, repr=False)

    @property
    def top_scopes(self) -> tuple[str, ...]:
        """The outermost scopes of the file's variables, and the head."""
        names = [weight.name.partition("/")[0] for weight in self.weights]
        return tuple(dict.fromkeys([*names, self.main_head]))

    def build(
        self,
        images: Any,
        num_classes: int,
        is_training: bool,
        *,
        dropout_keep_prob: float = 1.0,
        depth_multiplier: float = 1.0,
    ) -> tuple[Any, dict[str, Any]]:
        """Builds the file's part and a head into the current tf.Graph, as any net's builder.

        Args:
          images: float32 [batch, size, size, channels].
          num_classes: length of the logits.
          is_training: training mode for the dropout before the logits; the file's part stays in
            inference mode, its batch norms included.
          dropout_keep_prob: share of activations kept before the logits.
          depth_multiplier: not used; the file's layers are as wide as they are.

        Returns:
          Logits [batch, num_classes] and the end points by name.
        """
        tf, slim = load_tensorflow(), load_slim()
        bottleneck = self._imported(images)
        shape = bottleneck.shape
        if shape.rank is None or None in shape.as_list()[1:]:
            raise GraphError(
                f"The sizes of {self.output} in {self.name} are not known.",
                expected="a tensor [batch, ...] of known sizes",
                received=shape,
                next_step="Name another tensor with --bottleneck.",
            )
        with tf.compat.v1.variable_scope(self.main_head):
            net = slim.flatten(bottleneck)
            if dropout_keep_prob < 1.0:
                net = slim.dropout(net, dropout_keep_prob, is_training=is_training)
            logits = slim.fully_connected(net, num_classes, activation_fn=None, scope=_LOGITS)
        return logits, {BOTTLENECK: bottleneck, _LOGITS: logits}

    def _imported(self, images: Any) -> Any:
        tf = load_tensorflow()
        v1 = tf.compat.v1
        mapped = {self.input: images}
        for weight in self.weights:
            header = Header(weight.dtype, weight.shape)
            initial = initial_for(weight.name, header, weight.roles)
            variable = v1.get_variable(
                weight.name,
                shape=weight.shape,
                dtype=tf.as_dtype(weight.dtype.number),
                trainable=weight.is_trainable,
                initializer={
                    "ones": v1.ones_initializer(),
                    "zeros": v1.zeros_initializer(),
                    "normal": v1.glorot_normal_initializer(),
                }[initial],
            )
            mapped[f"{weight.node}:0"] = variable.read_value()
        without = {node_of(name) for name in mapped} | {METADATA_NODE}
        assert self.graph is not None  # noqa: S101 - read_graph_net gives one
        graph_def = GraphDef()
        for node in self.graph.graph_def.node:
            if node.name not in without:
                kept = graph_def.node.add()
                kept.CopyFrom(node)
                # What is not there any more cannot be waited for.
                given = [name for name in node.input if not _waits_for(name, without)]
                kept.input[:] = given
        graph_def.library.CopyFrom(self.graph.graph_def.library)
        graph_def.versions.CopyFrom(self.graph.graph_def.versions)
        message = v1.GraphDef.FromString(graph_def.SerializeToString())
        silence_prints(message)
        (bottleneck,) = tf.import_graph_def(
            message, input_map=mapped, return_elements=[self.output], name=""
        )
        return bottleneck


def is_graph_file(net: str) -> bool:
    """Whether `--net` names a file with a graph."""
    path = Path(net)
    return path.suffix in SUFFIXES or (path.is_dir() and (path / "saved_model.pb").is_file())


def read_graph_net(
    path: str,
    options: NetOptions,
    checkpoint: str | None = None,
    progress: Progress = SILENT,
) -> GraphNet:
    """Takes a net out of a file.

    Args:
      path: .pb, .pbtxt, .meta or a SavedModel's directory.
      options: names of tensors, preprocessing and size, as far as they were given.
      checkpoint: the variables of a .meta that has none beside it.
      progress: told what was guessed and found.

    Raises:
      GraphError: input or bottleneck cannot be told or are not there, or the part between them
        reaches files, the network or Python.
    """
    source = find_source(path, checkpoint=checkpoint, progress=progress)
    whole = as_graph(source.graph)
    metadata = read_metadata(whole)
    opened: Any = nullcontext({}) if source.family is None else checkpoints.open(source.family)
    with opened as values:
        bottleneck = _find_bottleneck(whole, options, metadata, progress)
        pictures = _find_input(whole, bottleneck, options, metadata, progress)
        size = _find_size(whole, pictures, options, metadata)
        preprocessing = _find_preprocessing(options, metadata, progress)
        channels = Preprocessing(preprocessing, size).channels
        frozen = prepare(
            whole,
            values,
            outputs=[str(bottleneck)],
            inputs=[f"{pictures}=?x{size}x{size}x{channels}"],
            progress=progress,
        )
        graph = Graph(frozen_graph_def(frozen), "graph-def", whole.path)
        # It becomes a part of a training graph, which has no business with files and networks.
        refuse_unsafe(graph.graph_def, False, whole.label)
    kept = {frozen.outputs[0].node, frozen.inputs[0].node}
    weights = tuple(
        weight
        for weight in find_weights(graph)
        # Of a graph that has variables, these are what was one; constants were none.
        if weight.node not in kept and (not frozen.variables or weight.node in frozen.variables)
    )
    names = {weight.name.partition("/")[0] for weight in weights}
    return GraphNet(
        name=str(path),
        builder="",
        scope=weights[0].name.partition("/")[0] if weights else HEAD,
        image_size=size,
        preprocessing=preprocessing,  # type: ignore[arg-type]
        main_head=next(name for name in _head_names() if name not in names),
        bottleneck=BOTTLENECK,
        logits=_LOGITS,
        paper=_PAPER,
        graph=graph,
        input=str(frozen.inputs[0]),
        output=str(frozen.outputs[0]),
        weights=weights,
        values=ConstantValues(
            str(path), {weight.name: graph.nodes[weight.node] for weight in weights}
        ),
    )


def _head_names() -> Any:
    yield HEAD
    number = 1
    while True:
        yield f"{HEAD}_{number}"
        number += 1


def _waits_for(name: str, absent: set[str]) -> bool:
    return is_control(name) and node_of(name) in absent


def _find_bottleneck(
    graph: Graph, options: NetOptions, metadata: Metadata | None, progress: Progress
) -> TensorName:
    """What feeds the last layer, unless somebody says."""
    if options.bottleneck is not None:
        return resolve_tensor(graph, options.bottleneck)
    if metadata is not None and "bottleneck" in metadata.outputs:
        found = tensor_of(metadata.outputs["bottleneck"])
        progress.say(f"Bottleneck {found}, from the graph's metadata.")
        return found
    output = resolve_outputs(graph, (), metadata)[0]
    tensor = output
    for _ in range(len(graph.nodes)):
        node = graph.nodes.get(tensor.node)
        inputs = [] if node is None else graph.data_inputs(tensor.node)
        if node is None or not inputs:
            break
        if node.op in _LAYERS:
            progress.say(
                f"Bottleneck {inputs[0]}, guessed: it feeds the last layer, {tensor.node}."
            )
            return inputs[0]
        tensor = inputs[0]
    raise GraphError(
        f"{graph.label} has no last layer before {output} whose input could be the bottleneck.",
        expected=f"one of {', '.join(sorted(_LAYERS))}",
        next_step="Name the tensor: --bottleneck TENSOR",
    )


def _find_input(
    graph: Graph,
    bottleneck: TensorName,
    options: NetOptions,
    metadata: Metadata | None,
    progress: Progress,
) -> TensorName:
    if options.input is not None:
        return resolve_tensor(graph, options.input, role="input")
    inside = (metadata.preprocessing or {}).get("in_graph") if metadata is not None else None
    named = inside or (metadata.input if metadata is not None else None)
    if named is not None:
        return tensor_of(str(named))
    found = placeholders(prune(graph, [bottleneck]).graph)
    pictures = [tensor for tensor in found if _could_be_pictures(graph.shape(tensor))]
    if len(pictures) != 1:
        raise GraphError(
            f"{graph.label} does not say which tensor takes the pictures.",
            expected="one placeholder [batch, height, width, 3], or 1 channel",
            received=listed(map(str, found)) if found else "no placeholder",
            next_step="Name it: --input TENSOR",
        )
    progress.say(f"Input {pictures[0]}, the placeholder for pictures.")
    return pictures[0]


def _could_be_pictures(shape: Shape | None) -> bool:
    return shape is None or (len(shape) == 4 and shape[3] in (3, 1, None))


def _find_size(
    graph: Graph, pictures: TensorName, options: NetOptions, metadata: Metadata | None
) -> int:
    if options.image_size is not None:
        return options.image_size
    if metadata is not None and metadata.image_size is not None:
        return metadata.image_size
    shape = graph.shape(pictures)
    if shape is not None and len(shape) == 4 and shape[1] is not None and shape[1] == shape[2]:
        return shape[1]
    raise UsageError(
        f"{graph.label} does not say how large its pictures are.",
        received=f"{pictures} {list(shape) if shape is not None else 'of no known shape'}",
        next_step="Add --image-size PX.",
    )


def _find_preprocessing(options: NetOptions, metadata: Metadata | None, progress: Progress) -> str:
    if options.preprocessing is not None:
        return options.preprocessing
    if metadata is not None and metadata.preprocessing is not None:
        return str(metadata.preprocessing.get("name"))
    progress.say(f"Preprocessing {_DEFAULT_PREPROCESSING}: the file says nothing of one.")
    return _DEFAULT_PREPROCESSING
