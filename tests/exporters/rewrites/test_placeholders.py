import numpy as np
import pytest

from checkpoints.errors import GraphError, UsageError
from exporters.freezing import prepare
from exporters.names import TensorName
from exporters.rewrites.placeholders import InputRequest, cut_at_inputs, parse_input

FLOAT = np.dtype("float32")
OUT = [TensorName("probs")]


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("x", InputRequest("x")),
        (" x:0 ", InputRequest("x:0")),
        ("x=?x224x224x3", InputRequest("x", (None, 224, 224, 3))),
        ("a/b=-1x784", InputRequest("a/b", (None, 784))),
        ("x=Nonex4", InputRequest("x", (None, 4))),
        ("x=8", InputRequest("x", (8,))),
    ],
)
def test_an_input_is_a_name_and_perhaps_a_shape(text, request_):
    assert parse_input(text) == request_


@pytest.mark.parametrize("text", ["x=", "x=axb", "x=4x", "x=1.5", "x=-2"])
def test_what_is_no_shape_is_wrong_usage(text):
    with pytest.raises(UsageError, match="gives no shape"):
        parse_input(text)


def test_a_placeholder_that_is_there_changes_nothing(dense_net):
    graph = dense_net.graph
    cut = cut_at_inputs(graph, OUT, [InputRequest("x:0"), InputRequest("x", (None, 4))])
    assert cut.graph is graph
    assert cut.inputs == (TensorName("x"),)
    assert cut.said == ()


def test_a_placeholder_may_get_another_shape(dense_net):
    cut = cut_at_inputs(dense_net.graph, OUT, [InputRequest("x", (2, 4))])
    assert cut.graph.shape(TensorName("x")) == (2, 4)
    assert cut.graph.nodes["probs"] == dense_net.graph.nodes["probs"]


def test_any_node_may_become_the_input(dense_net):
    cut = cut_at_inputs(dense_net.graph, OUT, [InputRequest("matmul", (None, 4))])
    assert list(cut.graph.nodes) == ["matmul", "fc/biases", "fc/biases/read", "logits", "probs"]
    placeholder = cut.graph.nodes["matmul"]
    assert (placeholder.op, list(placeholder.input)) == ("Placeholder", [])
    assert placeholder.attr["dtype"].type == 1
    assert cut.graph.shape(TensorName("matmul")) == (None, 4)
    assert cut.said == ("A placeholder stands for matmul:0 (MatMul).",)


def test_the_batch_is_left_open_and_the_rest_is_the_files(builder):
    builder.add("Iterator", "iterator")
    builder.add("IteratorGetNext", "next", "iterator")
    for sizes in ((32, 4), (32,)):
        shape = builder.graph_def.node[-1].attr["_output_shapes"].list.shape.add()
        for size in sizes:
            shape.dim.add(size=size)
    builder.graph_def.node[-1].attr["T"].type = 1
    builder.add("Softmax", "probs", "next", T=FLOAT)
    cut = cut_at_inputs(builder.graph, OUT, [InputRequest("next")])
    assert list(cut.graph.nodes) == ["next", "probs"]
    assert cut.graph.shape(TensorName("next")) == (None, 4)


def test_a_later_output_gets_a_placeholder_of_its_own(builder):
    builder.add("Split", "parts", T=FLOAT)
    builder.add("Softmax", "probs", "parts:1", "^parts", T=FLOAT)
    cut = cut_at_inputs(builder.graph, OUT, [InputRequest("parts:1", (None, 2))])
    assert cut.inputs == (TensorName("parts_1"),)
    assert list(cut.graph.nodes["probs"].input) == ["parts_1", "^parts"]

    builder.add("NoOp", "parts_1")
    with pytest.raises(GraphError, match="has a node parts_1 already"):
        cut_at_inputs(builder.graph, OUT, [InputRequest("parts:1")])


def test_a_node_that_was_cut_has_no_other_outputs(builder):
    builder.add("Split", "parts", T=FLOAT)
    builder.add("Add", "probs", "parts", "parts:1", T=FLOAT)
    with pytest.raises(GraphError, match="probs needs parts:1, and parts was cut") as caught:
        cut_at_inputs(builder.graph, OUT, [InputRequest("parts")])
    assert caught.value.next_step == "Cut there too: --inputs parts,parts:1"
    cut = cut_at_inputs(builder.graph, OUT, [InputRequest("parts"), InputRequest("parts:1")])
    assert list(cut.graph.nodes["probs"].input) == ["parts", "parts_1"]


def test_an_input_that_no_output_needs_is_refused(dense_net):
    dense_net.add("Placeholder", "labels", dtype=FLOAT)
    with pytest.raises(GraphError, match="no output depends on the input labels:0"):
        cut_at_inputs(dense_net.graph, OUT, [InputRequest("labels")])
    with pytest.raises(GraphError, match="no node 'lables', named as input") as caught:
        cut_at_inputs(dense_net.graph, OUT, [InputRequest("lables")])
    assert caught.value.next_step == "--inputs labels"


def test_a_dtype_that_nobody_says_is_refused(builder):
    builder.add("Mystery", "start")
    builder.add("Softmax", "probs", "start", T=FLOAT)
    with pytest.raises(GraphError, match="does not say the dtype of start:0"):
        cut_at_inputs(builder.graph, OUT, [InputRequest("start")])


def test_a_cut_graph_is_frozen_as_rewritten(dense_net):
    frozen = prepare(dense_net.graph, dense_net.values, inputs=["matmul=?x4"])
    assert frozen.rewritten
    assert frozen.inputs == (TensorName("matmul"),)
    assert list(frozen.variables) == ["fc/biases"]
    assert not prepare(dense_net.graph, dense_net.values, inputs=["x"]).rewritten


def test_placeholders_that_nobody_named_are_inputs_too(dense_net):
    dense_net.add("Placeholder", "scale", dtype=FLOAT, shape=())
    dense_net.add("Mul", "out", "probs", "scale", T=FLOAT)
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["out"], inputs=["x"])
    assert frozen.inputs == (TensorName("x"), TensorName("scale"))
    assert frozen.said == ("To be fed too: scale:0.",)


@pytest.mark.parametrize("text", ["x=0x4", "x=?x0", "x=0"])
def test_a_dimension_of_nothing_is_wrong_usage(text):
    with pytest.raises(UsageError, match="a dimension of 0 leaves nothing to feed") as caught:
        parse_input(text)
    assert caught.value.next_step.startswith("--inputs x=?")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((None, 5), r"given for x:0 ends in 5, not 4"),
        ((4,), r"given for x:0 has another rank"),
        ((None,), r"given for x:0 has another rank"),
        ((None, 4, 1), r"given for x:0 has another rank"),
    ],
)
def test_a_shape_that_is_not_the_placeholders(dense_net, shape, message):
    with pytest.raises(UsageError, match=message) as caught:
        cut_at_inputs(dense_net.graph, OUT, [InputRequest("x", shape)])
    assert caught.value.expected == "a shape like the placeholder's, ?x4"
    assert caught.value.next_step == "--inputs x=?x4"


def test_one_input_with_two_shapes_is_wrong_usage(dense_net):
    requests = [InputRequest("x", (None, 4)), InputRequest("x:0", (2, 4))]
    with pytest.raises(UsageError, match="x:0 is named twice") as caught:
        cut_at_inputs(dense_net.graph, OUT, requests)
    assert caught.value.received == "?x4 and 2x4"


@pytest.mark.parametrize("inputs", [["x", "x"], ["x", "x=?x4"], ["x=?x4", "import/x:0"]])
def test_the_same_input_twice_is_one(dense_net, inputs):
    frozen = prepare(dense_net.graph, dense_net.values, outputs=["probs"], inputs=inputs)
    assert frozen.inputs == (TensorName("x"),)


def test_an_input_that_lies_aside_is_no_missing_node(dense_net):
    dense_net.variable("global_step", np.int64(3))
    with pytest.raises(GraphError, match="no output depends on the input global_step:0"):
        prepare(dense_net.graph, dense_net.values, outputs=["probs"], inputs=["global_step"])


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_as_the_input(builder, resource):
    graph = builder.dense_net(resource=resource).graph
    if not resource:
        frozen = prepare(graph, builder.values, outputs=["probs"], inputs=["fc/weights"])
        assert frozen.graph.shape(TensorName("fc/weights")) == (4, 4)
        return
    with pytest.raises(GraphError, match=r"fc/weights \(VarHandleOp\) gives the handle") as caught:
        prepare(graph, builder.values, outputs=["probs"], inputs=["fc/weights"])
    assert caught.value.next_step == "--inputs fc/weights/Read"
