"""What was written for the batch of training is opened, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.constants import constant_value
from exporters.names import TensorName
from exporters.rewrites.batch_dimension import free_batch_dimension
from exporters.rewrites.draft import Draft

FLOAT = np.dtype("float32")
X = TensorName("x")


@pytest.fixture
def net(builder):
    """x [?, 1, 1, 7], which had a batch of 4 in training."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 1, 1, 7))
    return builder


def freed(builder, output: str = "out", shape=(4, 1, 1, 7)):
    return free_batch_dimension(Draft(builder.graph, (TensorName(output),)), {X: shape})


def sizes(draft, name: str) -> list[int]:
    node = draft.graph.nodes[name]
    return constant_value(draft.graph.nodes[node.input[1]]).tolist()


def test_reshapes_to_the_batch_of_training_are_opened(net):
    net.const("logits/shape", np.array([4, 7], np.int64))
    net.add("Reshape", "logits", "x", "logits/shape", T=FLOAT, Tshape=np.dtype("int64"))
    net.const("flat", np.array([-1, 7], np.int32))
    net.add("Reshape", "rows", "logits", "flat", T=FLOAT)
    net.add("Softmax", "softmax", "rows", T=FLOAT)
    net.const("predictions/shape", np.array([4, 1, 1, 7], np.int32))
    net.add("Reshape", "out", "softmax", "predictions/shape", T=FLOAT)
    draft = freed(net)
    assert sizes(draft, "logits") == [-1, 7]
    assert sizes(draft, "out") == [-1, 1, 1, 7]
    assert sizes(draft, "rows") == [-1, 7]
    assert draft.graph.nodes["logits"].attr["Tshape"].type == 3
    assert draft.said == ("2 shapes held the batch of training, logits, out first.",)
    assert not draft.is_faithful


def test_a_shape_that_others_need_too_is_not_touched(net):
    net.const("shape", np.array([4, 7], np.int32))
    net.add("Reshape", "out", "x", "shape", T=FLOAT)
    net.const("other", np.zeros(28, np.float32))
    net.add("Reshape", "fixed", "other", "shape", T=FLOAT)
    draft = freed(net)
    assert sizes(draft, "out") == [-1, 7]
    assert sizes(draft, "fixed") == [4, 7]


def test_an_open_size_beside_the_batch(net):
    net.const("shape", np.array([4, -1], np.int32))
    net.add("Reshape", "out", "x", "shape", T=FLOAT)
    # [4, -1] of any batch is wrong without a word as long as 4 divides it.
    with pytest.raises(GraphError, match="fits one batch size only"):
        freed(net, shape=(8, 1, 1, 7))
    assert sizes(freed(net), "out") == [-1, 7]


def test_a_shape_made_of_constants_is_seen_through(net):
    net.const("batch", np.int32(4))
    net.const("seven", np.int32(7))
    net.add("Pack", "shape", "batch", "seven", T=np.dtype("int32"), N=2)
    net.add("Reshape", "out", "x", "shape", T=FLOAT)
    assert sizes(freed(net), "out") == [-1, 7]


def test_shapes_that_follow_the_batch_are_left_alone(net):
    net.add("Shape", "shape", "x", T=FLOAT)
    net.const("begin", np.array([0], np.int32))
    net.const("end", np.array([1], np.int32))
    net.add("StridedSlice", "batch", "shape", "begin", "end", "end", shrink_axis_mask=1)
    net.const("seven", np.int32(7))
    net.add("Pack", "sizes", "batch", "seven", T=np.dtype("int32"), N=2)
    net.add("Reshape", "out", "x", "sizes", T=FLOAT)
    draft = Draft(net.graph, (TensorName("out"),))
    assert free_batch_dimension(draft, {X: (4, 1, 1, 7)}).graph is draft.graph


@pytest.mark.parametrize("target", [[7, 4], [2, 14], [28], [4, 7, 2]])
def test_other_shapes_are_refused_by_name(net, target):
    net.const("shape", np.array(target, np.int32))
    net.add("Reshape", "out", "x", "shape", T=FLOAT)
    with pytest.raises(GraphError, match="fits one batch size only") as caught:
        freed(net)
    assert f"out (Reshape) makes {target} of [batch, 1, 1, 7]" in caught.value.message
    assert caught.value.received == "a batch of 4"


def test_constants_with_a_row_for_each_of_the_batch(net):
    net.const("noise", np.zeros((4, 1, 1, 7), np.float32))
    net.add("Add", "out", "x", "noise", T=FLOAT)
    with pytest.raises(GraphError) as caught:
        freed(net)
    assert "out (Add) combines [batch, 1, 1, 7] with [4, 1, 1, 7]" in caught.value.message


def test_taking_the_batch_apart(net):
    net.add("Unpack", "rows", "x", num=4, axis=0)
    net.add("Pack", "out", "rows", "rows:1", N=2)
    with pytest.raises(GraphError, match="rows \\(Unpack\\) takes"):
        freed(net)


def test_rows_that_are_cut_off_without_a_word(net):
    for name, value in (("begin", [0]), ("end", [4]), ("step", [1])):
        net.const(name, np.array(value, np.int32))
    net.add("StridedSlice", "out", "x", "begin", "end", "step", T=FLOAT)
    with pytest.raises(GraphError, match="keeps 4 rows of the batch"):
        freed(net)


def test_an_output_without_the_batch(net):
    net.const("axes", np.array([0], np.int32))
    net.add("Mean", "out", "x", "axes", T=FLOAT)
    with pytest.raises(GraphError, match="whose first dimension is not the batch"):
        freed(net)


def test_numbers_and_unknown_shapes_are_no_problem(net):
    net.const("axes", np.array([0, 1, 2, 3], np.int32))
    net.add("Mean", "loss", "x", "axes", T=FLOAT)
    net.add("SomebodysOp", "theirs", "x")
    net.add("Add", "out", "theirs", "loss", T=FLOAT)
    draft = Draft(net.graph, (TensorName("out"), TensorName("loss")))
    assert free_batch_dimension(draft, {X: (4, 1, 1, 7)}).graph is draft.graph
    assert free_batch_dimension(draft, {X: None}) is draft
    assert free_batch_dimension(draft, {X: ()}) is draft


def test_outputs_say_their_open_shape(net):
    net.add("Relu", "out", "x", T=FLOAT)
    shape = net.graph_def.node[-1].attr["_output_shapes"].list.shape.add()
    for size in (4, 1, 1, 7):
        shape.dim.add(size=size)
    assert freed(net).graph.shape(TensorName("out")) == (None, 1, 1, 7)
