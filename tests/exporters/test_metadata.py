import json

import numpy as np
import pytest

from checkpoints.errors import GraphError
from exporters.graph import Graph
from exporters.metadata import (
    MAX_METADATA_BYTES,
    Metadata,
    metadata_from_text,
    metadata_node,
    read_metadata,
)

FULL = Metadata(
    classes=("花", "C++", "C#", "naïve café", ""),
    label_offset=1,
    preprocessing={"kind": "inception", "range": [-1.0, 1.0]},
    image_size=299,
    input="input:0",
    outputs={"logits": "logits:0", "probabilities": "probs:0"},
    net="inception_v3",
    step=1200,
)


def graph_with(text: bytes) -> Graph:
    node = metadata_node(FULL)
    node.attr["value"].tensor.string_val[0] = text
    from checkpoints.messages import GraphDef

    return Graph(GraphDef(node=[node]))


def test_what_is_written_is_read(dense_net):
    dense_net.graph_def.node.append(metadata_node(FULL))
    assert read_metadata(dense_net.graph) == FULL
    assert FULL.created_by.startswith("slimtune ")


def test_the_text_is_json_with_names_as_they_are():
    text = FULL.to_text()
    assert "花" in text and "\n" not in text
    assert json.loads(text) == {
        "format_version": 1,
        "classes": ["花", "C++", "C#", "naïve café", ""],
        "label_offset": 1,
        "preprocessing": {"kind": "inception", "range": [-1.0, 1.0]},
        "image_size": 299,
        "input": "input:0",
        "outputs": {"logits": "logits:0", "probabilities": "probs:0"},
        "net": "inception_v3",
        "step": 1200,
        "created_by": FULL.created_by,
    }


def test_several_classes_a_picture_are_said_where_it_is_so():
    several = Metadata(classes=("red", "round"), multi_label=True)
    assert json.loads(several.to_text())["multi_label"] is True
    assert metadata_from_text(several.to_text(), "m.pb") == several
    with pytest.raises(GraphError, match="multi_label: expected true or false, received 1"):
        metadata_from_text('{"multi_label": 1}', "m.pb")


def test_a_graph_without_metadata_has_none(dense_net):
    assert read_metadata(dense_net.graph) is None


def test_fields_of_later_writers_are_left_alone():
    text = '{"format_version": 1, "classes": ["a"], "colour": "blue"}'
    assert metadata_from_text(text, "m.pb").classes == ("a",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xfa", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"classes": ["\\ud800"]}', "not JSON"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b'{"format_version": 2}', "later version"),
        (b'{"format_version": "1"}', "format_version: expected a whole number"),
        (b'{"classes": "abc"}', "classes: expected a list of texts"),
        (b'{"classes": [1]}', "classes: expected a list of texts"),
        (b'{"classes": ["a\\nb", "c"]}', "classes: expected a list of texts without line breaks"),
        (b'{"classes": ["a\\u0000"]}', "classes: expected a list of texts without line breaks"),
        (b'{"label_offset": true}', "label_offset: expected a whole number"),
        (b'{"image_size": 0}', "image_size: expected a positive whole number"),
        (b'{"image_size": 1e400}', "image_size: expected a positive whole number"),
        (b'{"step": 99999999999999999999}', "step: expected a whole number"),
        (b'{"preprocessing": []}', "preprocessing: expected an object"),
        (b'{"outputs": {"logits": 1}}', "outputs: expected an object of tensor names"),
        (b'{"input": 7}', "input: expected a tensor's name"),
        (b"9" * 5000, "not JSON"),
        (b'"' + b"x" * MAX_METADATA_BYTES + b'"', "too long"),
    ],
    ids=lambda value: value[:24] if isinstance(value, bytes) else None,
)
def test_hostile_metadata_is_refused(text, message):
    with pytest.raises(GraphError, match="slimtune/metadata") as caught:
        read_metadata(graph_with(text))
    assert message in str(caught.value)


def test_all_faults_are_listed_at_once():
    with pytest.raises(GraphError) as caught:
        metadata_from_text('{"classes": 1, "net": 2, "step": "x"}', "m.pb")
    assert caught.value.message.count("expected") == 3
    assert "net: expected a text, received 2" in caught.value.message


def test_a_node_of_that_name_that_is_something_else_is_refused(builder):
    builder.add("Placeholder", "slimtune/metadata", dtype=np.dtype("float32"))
    with pytest.raises(GraphError, match="that is no metadata"):
        read_metadata(builder.graph)


@pytest.mark.tensorflow
def test_tensorflow_reads_the_node():
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    node = tf.compat.v1.NodeDef.FromString(metadata_node(FULL).SerializeToString())
    value = tf.make_ndarray(node.attr["value"].tensor)
    assert value.shape == ()
    assert json.loads(value.item())["classes"][0] == "花"
