"""GraphDefs, MetaGraphDefs, SavedModels, and the metadata in a .pb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import checkpoints
import exporters
from checkpoints.dtypes import of_numpy
from checkpoints.messages import GraphDef, MetaGraphDef, NodeDef, SavedModel
from checkpoints.progress import SILENT
from exporters.api import freeze
from exporters.graph import read_graph
from exporters.metadata import Metadata, metadata_node, read_metadata
from finetune.model import open_model
from fuzzing.mutation import mutate_json, mutate_message, mutate_text, one_of
from fuzzing.reader import Files, Reader
from fuzzing.reading import refusals, written
from scripts.inspecting.graph import graph_contents, graph_text
from scripts.output import json_line, printable

_PB, _PBTXT, _META = "g.pb", "g.pbtxt", "m.meta"
_SAVED_MODEL = "saved_model.pb"
_FLOAT, _INT32, _STRING = 1, 3, 7


def _node(graph: GraphDef, op: str, name: str, *inputs: str, **attributes: Any) -> None:
    node = graph.node.add(name=name, op=op, input=inputs)
    for key, value in attributes.items():
        attribute = node.attr[key]
        if isinstance(value, tuple):
            attribute.shape.SetInParent()
            for size in value:
                attribute.shape.dim.add(size=size)
        elif isinstance(value, np.ndarray):
            attribute.tensor.dtype = of_numpy(value.dtype).number
            for size in value.shape:
                attribute.tensor.tensor_shape.dim.add(size=size)
            attribute.tensor.tensor_content = value.tobytes()
        elif isinstance(value, bool):
            attribute.b = value
        elif isinstance(value, int):
            attribute.type = value
        elif isinstance(value, bytes):
            attribute.s = value
        else:
            attribute.list.type.extend(value)


def _frozen() -> GraphDef:
    """Input -> convolution -> batch norm -> ReLU -> dense layer -> probabilities."""
    graph = GraphDef()
    graph.versions.producer = 27
    _node(graph, "Placeholder", "x", dtype=_FLOAT, shape=(-1, 2, 2, 1))
    _node(graph, "Const", "c/weights", dtype=_FLOAT, value=np.ones((3, 3, 1, 1), np.float32))
    norm = [f"c/{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")]
    for name in norm:
        _node(graph, "Const", name, dtype=_FLOAT, value=np.ones(1, np.float32))
    _node(graph, "Conv2D", "conv", "x", "c/weights", T=_FLOAT, padding=b"SAME", data_format=b"NHWC")
    graph.node[-1].attr["strides"].list.i.extend([1, 1, 1, 1])
    _node(graph, "FusedBatchNormV3", "bn", "conv", *norm, T=_FLOAT, U=_FLOAT, is_training=False)
    _node(graph, "Relu", "relu", "bn", T=_FLOAT)
    _node(graph, "Const", "shape", dtype=_INT32, value=np.int32([-1, 4]))
    _node(graph, "Reshape", "flat", "relu", "shape", T=_FLOAT, Tshape=_INT32)
    _node(graph, "Const", "fc/weights", dtype=_FLOAT, value=np.ones((4, 3), np.float32))
    _node(graph, "MatMul", "logits", "flat", "fc/weights", T=_FLOAT)
    _node(graph, "Softmax", "probabilities", "logits", T=_FLOAT)
    return graph


def _values() -> dict[str, Any]:
    return {"fc/weights": np.ones((4, 3), np.float32), "fc/biases": np.zeros(3, np.float32)}


def _with_variables() -> GraphDef:
    """Input -> dense layer -> probabilities."""
    graph = GraphDef()
    graph.versions.producer = 27
    _node(graph, "Placeholder", "x", dtype=_FLOAT, shape=(-1, 4))
    for name, value in _values().items():
        _node(graph, "VariableV2", name, dtype=_FLOAT, shape=value.shape)
        _node(graph, "Identity", f"{name}/read", name, T=_FLOAT)
    _node(graph, "MatMul", "matmul", "x", "fc/weights/read", T=_FLOAT)
    _node(graph, "BiasAdd", "logits", "matmul", "fc/biases/read", T=_FLOAT)
    _node(graph, "Softmax", "probabilities", "logits", T=_FLOAT)
    return graph


def _training_graph() -> GraphDef:
    """A loop, a condition, a function that is called, and a switch of training."""
    graph = GraphDef()
    _node(graph, "Placeholder", "x", dtype=_FLOAT, shape=(2,))
    _node(graph, "Const", "p", dtype=10, value=np.array(True))
    _node(graph, "Switch", "switch", "x", "p", T=_FLOAT)
    _node(graph, "Merge", "merge", "switch", "switch:1", T=_FLOAT)
    _node(graph, "Enter", "enter", "merge", T=_FLOAT, frame_name=b"f")
    _node(graph, "Merge", "again", "enter", "next", T=_FLOAT)
    _node(graph, "Identity", "body", "again", "^p", T=_FLOAT)
    _node(graph, "NextIteration", "next", "body", T=_FLOAT)
    _node(graph, "Exit", "exit", "body", T=_FLOAT)
    _node(graph, "PartitionedCall", "call", "exit", Tin=[_FLOAT], Tout=[_FLOAT])
    graph.node[-1].attr["f"].func.name = "double"
    function = graph.library.function.add()
    function.signature.name = "double"
    function.signature.input_arg.add(name="a", type=_FLOAT)
    function.signature.output_arg.add(name="b", type=_FLOAT)
    function.node_def.add(name="sum", op="AddV2", input=["a", "a"]).attr["T"].type = _FLOAT
    function.ret["b"] = "sum:z:0"
    return graph


def _meta_graph() -> MetaGraphDef:
    """A net with a Saver, collections, a signature and definitions of ops."""
    meta = MetaGraphDef(graph_def=_with_variables())
    graph, names = meta.graph_def, list(_values())
    _texts(graph, "save/Const", [b"model"], is_scalar=True)
    _texts(graph, "save/names", [name.encode() for name in names])
    _texts(graph, "save/slices", [b""] * len(names))
    given = ("save/Const", "save/names", "save/slices")
    dtypes = [_FLOAT] * len(names)
    _node(graph, "SaveV2", "save/SaveV2", *given, *names, dtypes=dtypes)
    _node(graph, "Identity", "save/control", "save/Const", "^save/SaveV2", T=_STRING)
    _node(graph, "RestoreV2", "save/RestoreV2", *given, dtypes=dtypes)
    for number, name in enumerate(names):
        _node(graph, "Assign", f"save/Assign_{number}", name, f"save/RestoreV2:{number}", T=_FLOAT)
    _node(graph, "NoOp", "save/restore_all", *(f"^save/Assign_{n}" for n in range(len(names))))
    saver = meta.saver_def
    saver.filename_tensor_name, saver.save_tensor_name = "save/Const:0", "save/control:0"
    saver.restore_op_name, saver.version = "save/restore_all", 2
    variables = meta.collection_def["variables"].bytes_list.value
    variables.extend(b"\n\x04c/be" + name.encode() for name in names)
    meta.collection_def["train_op"].node_list.value.append("logits")
    meta.meta_info_def.tags.append("serve")
    meta.meta_info_def.tensorflow_version = "1.15.0"
    op = meta.meta_info_def.stripped_op_list.op.add(name="Softmax")
    op.input_arg.add(name="logits", type_attr="T")
    op.output_arg.add(name="softmax", type_attr="T")
    op.attr.add(name="T", type="type")
    signature = meta.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    signature.inputs["x"].name, signature.inputs["x"].dtype = "x:0", _FLOAT
    signature.outputs["y"].name, signature.outputs["y"].dtype = "probabilities:0", _FLOAT
    return meta


def _texts(graph: GraphDef, name: str, texts: list[bytes], is_scalar: bool = False) -> None:
    node = graph.node.add(name=name, op="Const")
    node.attr["dtype"].type = _STRING
    tensor = node.attr["value"].tensor
    tensor.dtype = _STRING
    tensor.tensor_shape.SetInParent()
    tensor.string_val.extend(texts)
    if not is_scalar:
        tensor.tensor_shape.dim.add(size=len(texts))


def _inspect(name: str) -> Callable[[Path], None]:
    """As `slimtune inspect --stats` does."""

    def read(directory: Path) -> None:
        with refusals():
            contents = graph_contents(str(directory / name), None, True, SILENT)
            json_line(contents)
            printable(graph_text(contents, True))

    return read


def _verify(name: str) -> Callable[[Path], None]:
    """As `slimtune verify` does."""

    def read(directory: Path) -> None:
        with refusals():
            json_line(exporters.verify(directory / name).as_json())

    return read


def _freeze(name: str) -> Callable[[Path], None]:
    """As `slimtune convert` does to a .pb, but for the run that proves it."""

    def read(directory: Path) -> None:
        with refusals():
            graph = read_graph(directory / name)
            freeze(graph, _values(), (), directory / "out.pb", verify="structure")

    return read


def _thaw_and_compare(directory: Path) -> None:
    with refusals():
        graph = read_graph(directory / _PB)
        exporters.diff(graph, graph)
        exporters.thaw(graph, directory / "thawed.ckpt")


def _read_text(directory: Path) -> None:
    with refusals():
        read_graph(directory / _PBTXT)


def _copy_meta(directory: Path) -> None:
    """As `slimtune convert` does to a checkpoint with its .meta: the Saver is rebuilt."""
    with refusals():
        exporters.convert(directory / "m", directory / "copy", to="v1")


def _graph_seeds() -> list[Files]:
    graphs = (_frozen(), _with_variables(), _training_graph())
    return [{_PB: graph.SerializeToString()} for graph in graphs]


def _text_seeds() -> list[Files]:
    graph = _training_graph()
    del graph.node[2:-1]
    meta = MetaGraphDef(graph_def=graph)
    meta.meta_info_def.tags.append("serve")
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
    return [{_PBTXT: str(message).encode()} for message in (graph, meta, saved)]


def _meta_seeds() -> list[Files]:
    values = written(lambda folder: checkpoints.write(folder / "m", _values()))
    return [{_META: _meta_graph().SerializeToString(), **values}]


def _saved_model_seeds() -> list[Files]:
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[_meta_graph()])
    plain = SavedModel(
        saved_model_schema_version=1, meta_graphs=[MetaGraphDef(graph_def=_frozen())]
    )
    plain.meta_graphs[0].meta_info_def.tags.append("serve")
    plain.meta_graphs.add().meta_info_def.tags.append("train")

    def write(folder: Path) -> None:
        checkpoints.write(folder / "variables/variables", _values())
        (folder / "assets").mkdir()
        (folder / "assets/labels.txt").write_text("red\nblue\n")

    return [
        {_SAVED_MODEL: saved.SerializeToString(), **written(write)},
        {_SAVED_MODEL: plain.SerializeToString()},
    ]


def _metadata_seeds() -> list[Files]:
    said = [
        Metadata(
            classes=("red", "green", "blue"),
            preprocessing={"name": "inception", "image_size": 4, "central_fraction": 0.875},
            image_size=4,
            input="x:0",
            outputs={"probabilities": "probabilities:0", "logits": "logits:0"},
            net="mobilenet_v1",
            step=7,
        ),
        Metadata(classes=(), input="x:0", outputs={"logits": "logits:0"}),
    ]
    seeds = []
    for metadata in said:
        graph = GraphDef()
        _node(graph, "Placeholder", "x", dtype=_FLOAT, shape=(-1, 4, 4, 3))
        _node(graph, "Const", "w", dtype=_FLOAT, value=np.ones((48, 3), np.float32))
        _node(graph, "MatMul", "logits", "x", "w", T=_FLOAT)
        _node(graph, "Softmax", "probabilities", "logits", T=_FLOAT)
        graph.node.append(metadata_node(metadata))
        seeds.append({_PB: graph.SerializeToString()})
    return seeds


def _change_metadata(files: Files, random: Random) -> Files:
    """Changes the text in the node, or the node; the rest of the graph stays."""
    graph = GraphDef.FromString(files[_PB])
    node = graph.node[-1]
    tensor = node.attr["value"].tensor
    if random.random() < 0.8:
        mutate = one_of(mutate_json, mutate_text, weights=(3, 1))
        tensor.string_val[0] = mutate(tensor.string_val[0], random)
    else:
        changed = mutate_message(NodeDef)(node.SerializeToString(), random)
        node.CopyFrom(NodeDef.FromString(changed))
    return {_PB: graph.SerializeToString()}


def _read_metadata(directory: Path) -> None:
    with refusals():
        metadata = read_metadata(read_graph(directory / _PB))
        json_line({} if metadata is None else metadata.as_json())


def _open_model(directory: Path) -> None:
    """As `slimtune predict` and `slimtune evaluate` do before pictures come."""
    with refusals():
        model = open_model(directory / _PB)
        assert model.classes == model.metadata.classes


READERS = (
    Reader(
        "graph-def",
        _graph_seeds,
        (_inspect(_PB), _verify(_PB), _freeze(_PB), _thaw_and_compare),
        {_PB: mutate_message(GraphDef)},
    ),
    Reader("graph-text", _text_seeds, (_read_text,), {_PBTXT: mutate_text}),
    Reader(
        "meta-graph",
        _meta_seeds,
        (_inspect(_META), _verify(_META), _freeze(_META), _copy_meta),
        {_META: mutate_message(MetaGraphDef)},
    ),
    Reader(
        "saved-model",
        _saved_model_seeds,
        (_inspect(""), _verify(""), _freeze(_SAVED_MODEL)),
        {_SAVED_MODEL: mutate_message(SavedModel)},
    ),
    Reader(
        "metadata",
        _metadata_seeds,
        (_read_metadata, _open_model, _inspect(_PB), _read_metadata, _open_model),
        whole=_change_metadata,
    ),
)
