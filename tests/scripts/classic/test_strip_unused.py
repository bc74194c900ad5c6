"""strip_unused beside TensorFlow's own tool: node for node the same graph."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

from checkpoints.messages import DataType, GraphDef
from exporters.graph import read_graph

pytestmark = pytest.mark.tensorflow


def old_tool(path, inputs, outputs, dtype=1):
    from tensorflow.core.framework import graph_pb2
    from tensorflow.python.tools import strip_unused_lib

    message = graph_pb2.GraphDef.FromString(path.read_bytes())
    result = strip_unused_lib.strip_unused(message, inputs, outputs, dtype)
    return GraphDef.FromString(result.SerializeToString())


def run(slimtune, graph, path, inputs, outputs, *more):
    return slimtune(
        *("classic", "strip_unused", f"--input_graph={graph}", f"--output_graph={path}"),
        *(f"--input_node_names={inputs}", f"--output_node_names={outputs}", *more),
    )


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [("pictures", "probabilities"), ("pooled", "logits"), ("body/checked,pictures", "pooled")],
)
def test_it_keeps_what_tensorflows_tool_keeps(slimtune, saved, tmp_path, inputs, outputs):
    path = tmp_path / "o.pb"
    code, out, err = run(slimtune, saved.binary, path, inputs, outputs)
    assert code == 0, err
    ours = GraphDef.FromString(path.read_bytes())
    theirs = old_tool(saved.binary, inputs.split(","), [outputs])
    assert list(ours.node) == list(theirs.node)
    # TensorFlow's tool loses the versions, by which a reader knows whether it may read.
    assert ours.versions == GraphDef.FromString(saved.binary.read_bytes()).versions
    assert out == f"{len(ours.node)} ops in the final graph.\n"
    assert f"--inputs {inputs} --outputs {outputs}" in err
    assert ("No output depends on pictures" in err) == (inputs == "body/checked,pictures")


def test_text_in_and_text_out(slimtune, saved, tmp_path):
    path = tmp_path / "o.pbtxt"
    code, _, err = run(slimtune, saved.text, path, "pictures", "logits", "--output_binary=false")
    assert code == 0, err
    ours = text_format.Parse(path.read_text(), GraphDef())
    assert list(ours.node) == list(old_tool(saved.binary, ["pictures"], ["logits"]).node)


@pytest.fixture
def decoder(tf, tmp_path):
    """A graph whose picture comes from decode_jpeg, whose node does not say its dtype."""
    with tf.Graph().as_default() as graph:
        encoded = tf.compat.v1.placeholder(tf.string, [], name="encoded")
        image = tf.io.decode_jpeg(encoded, name="DecodeJpeg")
        tf.cast(image, tf.float32, name="pixels")
        tf.split(tf.reshape(tf.range(4), [4]), 2, name="halves")[1] + 1
        (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    return tmp_path / "graph.pb"


def test_the_type_says_what_the_graph_does_not(tf, slimtune, decoder, tmp_path):
    path = tmp_path / "o.pb"
    uint8 = DataType.DT_UINT8
    code, _, err = run(
        *(slimtune, decoder, path, "DecodeJpeg", "pixels", f"--placeholder_type_enum={uint8}")
    )
    assert code == 0, err
    ours = GraphDef.FromString(path.read_bytes())
    assert list(ours.node) == list(old_tool(decoder, ["DecodeJpeg"], ["pixels"], uint8).node)
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(v1.GraphDef.FromString(path.read_bytes()), name="")
        found = session.run("pixels:0", {"DecodeJpeg:0": np.full((1, 1, 3), 7, np.uint8)})
    assert found.tolist() == [[[7.0, 7.0, 7.0]]]


def test_a_type_is_not_forced_on_an_input_that_has_its_own(slimtune, decoder, tmp_path):
    path = tmp_path / "o.pb"
    assert run(slimtune, decoder, path, "encoded", "pixels")[0] == 0
    assert read_graph(path).nodes["encoded"].attr["dtype"].type == DataType.DT_STRING
    code, _, err = run(*(slimtune, decoder, path, "encoded", "pixels", "--placeholder_type_enum=4"))
    assert code == 1
    assert "the input encoded is string" in err
    assert "Expected: --placeholder_type_enum=7, or the flag left out" in err


def test_an_input_of_several_outputs_is_refused(slimtune, decoder, tmp_path):
    code, _, err = run(slimtune, decoder, tmp_path / "o.pb", "halves", "add")
    assert code == 1
    assert "add takes halves:1, and a placeholder has one output." in err


def test_the_graph_itself_is_not_written_over(slimtune, saved):
    before = saved.binary.read_bytes()
    code, _, err = run(slimtune, saved.binary, saved.binary, "pictures", "logits")
    assert code == 2
    assert "would be replaced, which is the source" in err
    assert saved.binary.read_bytes() == before


def test_outputs_have_to_be_named(slimtune, saved, tmp_path):
    code, _, err = run(slimtune, saved.binary, tmp_path / "o.pb", "", ",")
    assert code == 2
    assert "--output_node_names names nothing." in err


def test_a_name_that_is_not_there_gets_near_ones(slimtune, saved, tmp_path):
    code, _, err = run(slimtune, saved.binary, tmp_path / "o.pb", "picture", "logits")
    assert code == 1
    assert "has no node 'picture', which --input_node_names names." in err
    assert "Next: --input_node_names=pictures\n" in err
