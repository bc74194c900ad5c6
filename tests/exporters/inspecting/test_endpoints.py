import numpy as np
import pytest

from checkpoints.errors import GraphError
from checkpoints.messages import MetaGraphDef
from exporters.graph import Graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs, resolve_tensor
from exporters.metadata import Metadata
from exporters.names import TensorName

FLOAT = np.dtype("float32")


@pytest.mark.parametrize("name", ["probs", "probs:0", "^probs", " probs ", "import/probs"])
def test_names_of_nodes_and_tensors_are_forgiven(dense_net, name):
    assert resolve_tensor(dense_net.graph, name) == TensorName("probs")


def test_a_graph_that_was_imported_is_found_without_its_prefix(builder):
    builder.add("Placeholder", "import/x", dtype=FLOAT)
    assert resolve_tensor(builder.graph, "x") == TensorName("import/x")


@pytest.mark.parametrize("name", ["prob", "Probs", "Probs:0", "rpobs"])
def test_near_names_are_given(dense_net, name):
    with pytest.raises(GraphError) as caught:
        resolve_tensor(dense_net.graph, name)
    assert f"no node {name.partition(':')[0]!r}, named as output" in caught.value.message
    assert "probs" in caught.value.expected
    assert caught.value.received == name
    assert caught.value.next_step == "--outputs probs"


def test_the_last_part_of_a_name_is_near(builder):
    builder.add("Placeholder", "Net/Predictions/Reshape_1", dtype=FLOAT)
    with pytest.raises(GraphError) as caught:
        resolve_tensor(builder.graph, "Reshape_1", role="input")
    assert caught.value.next_step == "--inputs Net/Predictions/Reshape_1"


def test_an_index_beyond_the_outputs_is_refused(dense_net):
    graph_def = dense_net.graph_def
    shapes = graph_def.node[-1].attr["_output_shapes"].list.shape
    shapes.add().dim.add(size=-1)
    with pytest.raises(GraphError, match=r"probs \(Softmax\) has no output 1") as caught:
        resolve_tensor(Graph(graph_def), "probs:1")
    assert caught.value.expected == "an index below 1"


def test_requested_outputs_keep_their_order_and_lose_doubles(dense_net, heard):
    found = resolve_outputs(dense_net.graph, ["logits", "probs:0", "^logits"], None, heard)
    assert found == (TensorName("logits"), TensorName("probs"))
    assert heard.said == []


def test_without_a_name_the_sink_is_taken_and_said(dense_net, heard):
    assert resolve_outputs(dense_net.graph, [], None, heard) == (TensorName("probs"),)
    (said,) = heard.said
    assert said.startswith("Output probs:0, guessed")


def test_metadata_goes_before_a_guess(dense_net, heard):
    metadata = Metadata(outputs={"bottleneck": "matmul:0", "logits": "logits"})
    found = resolve_outputs(dense_net.graph, [], metadata, heard)
    assert found == (TensorName("logits"), TensorName("matmul"))
    assert heard.said == ["Outputs logits:0, matmul:0, from the graph's metadata."]


def test_a_signature_goes_before_a_guess(dense_net, heard):
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    meta.signature_def["other"].outputs["a"].name = "matmul:0"
    meta.signature_def["serving_default"].outputs["scores"].name = "logits:0"
    graph = Graph(meta.graph_def, "saved-model", None, meta)
    assert resolve_outputs(graph, [], None, heard) == (TensorName("logits"),)
    assert heard.said == ["Outputs logits:0, from the signature 'serving_default'."]


def test_placeholders_stand_in_file_order_after_the_one_that_metadata_names(builder):
    builder.add("Placeholder", "keep_prob", dtype=FLOAT)
    builder.add("Placeholder", "pictures", dtype=FLOAT)
    assert placeholders(builder.graph) == (TensorName("keep_prob"), TensorName("pictures"))
    first, second = placeholders(builder.graph, Metadata(input="pictures:0"))
    assert (first.node, second.node) == ("pictures", "keep_prob")
