"""The proof has to find whatever is wrong with a file; each test damages one thing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from checkpoints.errors import VerificationError
from checkpoints.messages import GraphDef
from exporters.freezing import FrozenGraph, prepare
from exporters.frozen_file import write_frozen
from exporters.metadata import Metadata
from exporters.proofs.structure import prove_structure
from exporters.proofs.verdict import PROVED

FLOAT = np.dtype("float32")
METADATA = Metadata(classes=("a", "b", "c", "d"), input="x:0", outputs={"probabilities": "probs:0"})


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def frozen(request, builder) -> FrozenGraph:
    builder.dense_net(resource=request.param)
    builder.variable("unused", np.zeros(3, np.float32), request.param)
    builder.const("axis", np.int32(1))
    builder.add("ArgMax", "class", "probs", "axis", T=FLOAT)
    return prepare(builder.graph, builder.values, outputs=["class", "probs"], metadata=METADATA)


@pytest.fixture
def written(frozen, tmp_path) -> Path:
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(frozen, file)
    return path


def prove(frozen: FrozenGraph, path: Path):
    return prove_structure(
        path, frozen.source, frozen.values, frozen.outputs, metadata=frozen.metadata
    )


def change(path: Path, how: Callable[[GraphDef], None]) -> None:
    graph_def = GraphDef.FromString(path.read_bytes())
    how(graph_def)
    path.write_bytes(graph_def.SerializeToString(deterministic=True))


def node(graph_def: GraphDef, name: str):
    return next(entry for entry in graph_def.node if entry.name == name)


def failure(frozen: FrozenGraph, path: Path) -> str:
    with pytest.raises(VerificationError, match="is not what its source says") as caught:
        prove(frozen, path)
    return str(caught.value)


def test_a_written_file_is_proved(frozen, written):
    assert prove(frozen, written) == PROVED


def test_one_byte_of_a_weight(frozen, written):
    data = bytearray(written.read_bytes())
    place = data.index(frozen.values["fc/weights"].tobytes()) + 5
    data[place] ^= 1
    written.write_bytes(bytes(data))
    assert "Node fc/weights: byte 5 of the values differs" in failure(frozen, written)


def test_three_faults_of_a_constant_are_told_apart(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 3))
    generator = np.random.default_rng(0)
    previous = "x"
    for name in ("one", "two"):
        read = builder.variable(name, generator.normal(size=(3, 3)).astype(np.float32))
        previous = builder.add("MatMul", f"{name}/product", previous, read, T=FLOAT)
    frozen = prepare(builder.graph, builder.values, outputs=[previous])
    path = tmp_path / "m.pb"

    def told(name: str, values: np.ndarray) -> str:
        with path.open("wb") as file:
            write_frozen(frozen, file)
        change(path, lambda graph: set_content(graph, name, values))
        return failure(frozen, path)

    one, two = builder.values["one"], builder.values["two"]
    near, holed = one.copy(), one.copy()
    near[1, 1] += 1e-3
    holed[1, 1] = np.nan
    assert "differs from the variable's; 1 of 9 differ, by 0.001 at most" in told("one", near)
    assert "1 of 9 are NaN in one of the two only" in told("one", holed)
    assert "they are those of two" in told("one", two)


def set_content(graph_def: GraphDef, name: str, values: np.ndarray) -> None:
    node(graph_def, name).attr["value"].tensor.tensor_content = values.tobytes()


def test_a_swapped_input(frozen, written):
    def swap(graph_def):
        entry = node(graph_def, "matmul")
        entry.input[0], entry.input[1] = entry.input[1], entry.input[0]

    change(written, swap)
    assert "Node matmul: the input" in failure(frozen, written)


def test_another_input(frozen, written):
    change(written, lambda graph_def: node(graph_def, "class").input.__setitem__(0, "logits"))
    assert "Node class: the input probs is not there" in failure(frozen, written)


def test_an_added_control_edge(frozen, written):
    change(written, lambda graph_def: node(graph_def, "probs").input.append("^x"))
    assert "Node probs: the input ^x is not the source's" in failure(frozen, written)


@pytest.mark.parametrize("name", ["x", "fc/biases", "logits", "probs", "class"])
def test_a_dropped_node(frozen, written, name):
    change(written, lambda graph_def: graph_def.node.remove(node(graph_def, name)))
    assert f"Node {name}: the node is missing" in failure(frozen, written)


def test_a_dropped_metadata_node(frozen, written):
    change(written, lambda graph_def: graph_def.node.remove(node(graph_def, "slimtune/metadata")))
    assert "slimtune/metadata: the metadata is missing" in failure(frozen, written)


def test_an_added_node(frozen, written):
    change(written, lambda graph_def: graph_def.node.add(name="more", op="NoOp"))
    assert "Node more: the source has no such node" in failure(frozen, written)


def test_a_node_of_the_source_that_no_output_needs(frozen, written):
    def add(graph_def):
        entry = graph_def.node.add(name="unused", op="Const")
        entry.attr["dtype"].type = 1
        tensor = entry.attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=3)
        tensor.tensor_content = bytes(12)

    change(written, add)
    assert "Node unused: no output needs the node" in failure(frozen, written)


def test_kernels_exchanged(builder, tmp_path):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 3))
    generator = np.random.default_rng(3)
    first = builder.variable("first", generator.normal(size=(3, 3)).astype(np.float32))
    second = builder.variable("second", generator.normal(size=(3, 3)).astype(np.float32))
    builder.add("MatMul", "one", "x", first, T=FLOAT)
    builder.add("MatMul", "two", "one", second, T=FLOAT)
    frozen = prepare(builder.graph, builder.values, outputs=["two"])
    exchanged = {"first": builder.values["second"], "second": builder.values["first"]}
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(prepare(builder.graph, exchanged, outputs=["two"]), file)
    assert "Node first: byte" in failure(frozen, path)


def test_another_dtype(frozen, written):
    def change_dtype(graph_def):
        entry = node(graph_def, "fc/biases")
        entry.attr["dtype"].type = 3

    change(written, change_dtype)
    text = failure(frozen, written)
    assert "Node fc/biases: the dtype differs" in text
    assert "Expected: float32\nReceived: int32" in text


def test_another_dtype_inside_the_tensor(frozen, written):
    change(
        written,
        lambda graph_def: setattr(node(graph_def, "fc/biases").attr["value"].tensor, "dtype", 3),
    )
    assert "Node fc/biases: the dtype differs" in failure(frozen, written)


def test_another_shape_of_the_same_size(frozen, written):
    def change_shape(graph_def):
        shape = node(graph_def, "fc/weights").attr["value"].tensor.tensor_shape
        shape.dim[0].size, shape.dim[1].size = 2, 8

    change(written, change_shape)
    text = failure(frozen, written)
    assert "Node fc/weights: the shape differs" in text
    assert "Received: [2, 8]" in text


def test_a_changed_attribute(frozen, written):
    change(
        written, lambda graph_def: setattr(node(graph_def, "matmul").attr["transpose_a"], "b", True)
    )
    assert "Node matmul: the attribute transpose_a was added" in failure(frozen, written)
    change(written, lambda graph_def: node(graph_def, "matmul").attr.pop("transpose_a"))
    change(written, lambda graph_def: setattr(node(graph_def, "matmul").attr["T"], "type", 2))
    assert "Node matmul: the attribute T differs" in failure(frozen, written)
    change(written, lambda graph_def: node(graph_def, "matmul").attr.pop("T"))
    assert "Node matmul: the attribute T is missing" in failure(frozen, written)


def test_an_added_attribute_of_a_constant(frozen, written):
    change(
        written,
        lambda graph_def: node(graph_def, "fc/biases").attr["_class"].list.s.append(b"loc:@x"),
    )
    assert "Node fc/biases: the attributes differ" in failure(frozen, written)


def test_another_op(frozen, written):
    change(written, lambda graph_def: setattr(node(graph_def, "probs"), "op", "Sigmoid"))
    assert "Node probs: the op differs" in failure(frozen, written)
    change(written, lambda graph_def: setattr(node(graph_def, "probs"), "op", "Softmax"))
    change(written, lambda graph_def: setattr(node(graph_def, "fc/biases"), "op", "Variable"))
    assert "Node fc/biases: the variable is no constant" in failure(frozen, written)


def test_a_device(frozen, written):
    change(written, lambda graph_def: setattr(node(graph_def, "probs"), "device", "/gpu:0"))
    assert "Node probs: a device is left" in failure(frozen, written)


def test_a_constant_with_an_input(frozen, written):
    change(written, lambda graph_def: node(graph_def, "fc/biases").input.append("^x"))
    assert "Node fc/biases: the constant has inputs or a device" in failure(frozen, written)


def test_a_truncated_file(frozen, written):
    data = written.read_bytes()
    for length in range(0, len(data) - 1, 7):
        written.write_bytes(data[:length])
        with pytest.raises(VerificationError):
            prove(frozen, written)
    written.write_bytes(data[: len(data) // 2])
    assert "is cut or damaged" in failure(frozen, written)


def test_trailing_bytes(frozen, written):
    data = written.read_bytes()
    written.write_bytes(data + b"\x00")
    assert "what follows slimtune/metadata is cut or damaged" in failure(frozen, written)
    written.write_bytes(data + b"\x50\x01")
    assert "Node slimtune/metadata: bytes that belong to no node" in failure(frozen, written)
    written.write_bytes(data + data[-4:])
    with pytest.raises(VerificationError):
        prove(frozen, written)


def test_a_duplicated_node(frozen, written):
    for name in ("probs", "fc/weights", "slimtune/metadata"):
        original = written.read_bytes()
        change(written, lambda graph_def, name=name: graph_def.node.append(node(graph_def, name)))
        assert f"Node {name}: the node stands in the file twice" in failure(frozen, written)
        written.write_bytes(original)


def test_changed_metadata(frozen, written):
    data = written.read_bytes()
    written.write_bytes(data.replace(b'"classes": ["a"', b'"classes": ["z"'))
    assert "slimtune/metadata: the metadata differs" in failure(frozen, written)


def test_metadata_that_nobody_gave(builder, frozen, written):
    with pytest.raises(VerificationError, match="metadata that nobody gave"):
        prove_structure(written, frozen.source, frozen.values, frozen.outputs)


def test_other_versions(frozen, written):
    change(written, lambda graph_def: setattr(graph_def.versions, "producer", 5))
    assert "the versions differ" in failure(frozen, written)
    change(written, lambda graph_def: graph_def.ClearField("versions"))
    assert "without its versions" in failure(frozen, written)


def test_an_empty_file(frozen, written):
    written.write_bytes(b"")
    with pytest.raises(VerificationError, match="is empty"):
        prove(frozen, written)


def test_no_byte_can_be_changed_unseen(frozen, written):
    data = written.read_bytes()
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 1 << (place // 3 % 8)
        written.write_bytes(bytes(changed))
        with pytest.raises(VerificationError):
            prove(frozen, written)


def test_an_update_edge_may_be_cut_and_a_guard_may_not(builder, tmp_path):
    builder.dense_net()
    builder.add("Assert", "check", "probs")
    builder.add("AssignSub", "update", "fc/biases", "fc/biases/read")
    builder.add("NoOp", "group", "^check", "^update")
    builder.add("Identity", "out", "probs", "^group", "^update", T=FLOAT)
    frozen = prepare(builder.graph, builder.values, outputs=["out"])
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(frozen, file)
    assert prove(frozen, path) == PROVED
    change(path, lambda graph_def: node(graph_def, "out").input.remove("^group"))
    assert "Node out: the input ^group is not there" in failure(frozen, path)


def test_functions_are_compared(builder, tmp_path):
    library = builder.graph_def.library
    for name in ("body", "gradient", "other"):
        function = library.function.add()
        function.signature.name = name
        function.node_def.add(name="n", op="Identity", device="/device:GPU:0")
    library.gradient.add(function_name="body", gradient_func="gradient")
    builder.dense_net()
    builder.add("PartitionedCall", "out", "probs")
    builder.graph_def.node[-1].attr["f"].func.name = "body"
    builder.graph_def.node[-1].attr["g"].func.name = "gradient"
    frozen = prepare(builder.graph, builder.values, outputs=["out"])
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(frozen, file)
    assert prove(frozen, path) == PROVED
    original = path.read_bytes()
    assert b"GPU" not in original

    def failure_after(how) -> str:
        path.write_bytes(original)
        change(path, how)
        return failure(frozen, path)

    assert "Node body: the function differs" in failure_after(
        lambda graph_def: setattr(graph_def.library.function[0].node_def[0], "op", "Neg")
    )
    assert "Node body: the function differs or is missing" in failure_after(
        lambda graph_def: graph_def.library.function.pop(0)
    )
    assert "Node other: no node calls the function" in failure_after(
        lambda graph_def: setattr(graph_def.library.function.add().signature, "name", "other")
    )
    assert "or gradients differ" in failure_after(
        lambda graph_def: graph_def.library.ClearField("gradient")
    )
    assert "a function stands there twice" in failure_after(
        lambda graph_def: graph_def.library.function.append(graph_def.library.function[0])
    )


def test_names_in_the_checkpoint_may_be_others(dense_net, tmp_path):
    values = {f"saved/{name}": value for name, value in dense_net.values.items()}
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["probs"])
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        write_frozen(frozen, file)
    keys = {name: f"saved/{name}" for name in dense_net.values}
    proved = prove_structure(path, dense_net.graph, values, frozen.outputs, keys=keys)
    assert proved == PROVED
