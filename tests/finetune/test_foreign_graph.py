"""Models that another program wrote: described by a person, checked against the file."""

import pytest

from checkpoints.errors import GraphError, UsageError
from checkpoints.messages import GraphDef
from exporters.graph import Graph, read_graph
from exporters.names import METADATA_NODE
from exporters.runtime import load_tensorflow
from finetune import evaluate, predict
from finetune.foreign_graph import Description, describe_graph
from finetune.model import open_model

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def foreign(colour_model, tmp_path):
    """The hand-made model without its metadata."""
    message = GraphDef.FromString(colour_model.write_pb(tmp_path / "own.pb").read_bytes())
    kept = [node for node in message.node if node.name != METADATA_NODE]
    path = tmp_path / "foreign.pb"
    path.write_bytes(GraphDef(node=kept, versions=message.versions).SerializeToString())
    return path


@pytest.fixture
def labels(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("blue\ngreen\nred\n")
    return path


def test_what_the_file_and_a_person_say(foreign, labels, heard):
    found = describe_graph(read_graph(foreign), Description("inception", labels), heard)
    assert found.classes == ("blue", "green", "red")
    assert (found.input, found.image_size) == ("input:0", 16)
    assert dict(found.outputs) == {"probabilities": "probabilities:0"}
    assert heard.said[-1] == "Input input:0, 16 pixels, preprocessing inception."


def test_it_is_evaluated_and_asked_like_any_other(foreign, labels, colours, colour_pictures):
    description = Description("inception", labels)
    assert evaluate(foreign, colours, description=description).accuracy == 1.0
    (answer,) = predict(
        foreign, [colour_pictures / "red" / "1.png"], description=description, top=1
    )
    assert answer.classes[0]["label"] == "red"
    assert evaluate(foreign, colours, description=Description("inception")).accuracy == 1.0


def test_it_is_refused_as_long_as_nobody_says_anything(foreign, colours):
    with pytest.raises(GraphError, match="does not say how pictures") as caught:
        evaluate(foreign, colours)
    assert "--preprocessing inception --labels FILE" in caught.value.next_step


def test_labels_of_another_number_are_refused(foreign, tmp_path):
    (tmp_path / "two.txt").write_text("blue\ngreen\n")
    with pytest.raises(GraphError, match=r"two\.txt does not fit the model"):
        open_model(foreign, description=Description("inception", tmp_path / "two.txt"))


def test_what_says_it_itself_is_not_overruled(colour_model, colours, tmp_path):
    model = colour_model.write_pb(tmp_path / "m.pb")
    with pytest.raises(UsageError, match="says itself"):
        evaluate(model, colours, description=Description("vgg"))
    run = colour_model.begin_run(tmp_path / "run", 1)
    with pytest.raises(UsageError, match="is no graph of another program"):
        evaluate(run, colours, description=Description("vgg"))


def test_a_graph_without_pictures_is_refused():
    tf = load_tensorflow()
    with tf.Graph().as_default() as graph:
        numbers = tf.compat.v1.placeholder(tf.float32, [None, 4], name="numbers")
        tf.nn.softmax(numbers @ tf.ones([4, 2]), name="answers")
    message = GraphDef.FromString(graph.as_graph_def().SerializeToString())
    with pytest.raises(GraphError, match="does not say where pictures go in") as caught:
        describe_graph(Graph(message), Description("inception"))
    assert caught.value.received == "numbers:0 (None, 4)"
