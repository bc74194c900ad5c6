import pytest

from checkpoints.messages import GraphDef
from checkpoints.progress import SILENT, Notes
from exporters.fitted_metadata import fit_metadata
from exporters.graph import Graph
from exporters.metadata import Metadata
from exporters.names import tensor_of

PREPROCESSING = {"name": "inception", "image_size": 149, "central_fraction": 0.875}


def fitted(*shape: int) -> tuple[Metadata, list[str]]:
    graph_def = GraphDef()
    node = graph_def.node.add(name="input", op="Placeholder")
    node.attr["dtype"].type = 1
    for size in shape:
        node.attr["shape"].shape.dim.add(size=size)
    graph_def.node.add(name="probs", op="Softmax", input=["input"]).attr["T"].type = 1
    metadata = Metadata(
        classes=("a", "b"),
        preprocessing=PREPROCESSING,
        image_size=149,
        input="input:0",
        outputs={"probabilities": "probs:0", "logits": "logits:0"},
    )
    notes = Notes(SILENT)
    inputs, outputs = (tensor_of("input"),), (tensor_of("probs"),)
    return fit_metadata(metadata, Graph(graph_def), inputs, outputs, notes), notes.lines


@pytest.mark.parametrize("shape", [(-1, 160, 160, 3), (1, 160, 160, 3), (-1, 160, -1, 3)])
def test_the_preprocessing_makes_pictures_of_the_inputs_size(shape):
    metadata, said = fitted(*shape)
    assert metadata.image_size == 160
    assert metadata.preprocessing == {**PREPROCESSING, "image_size": 160}
    assert metadata.outputs == {"probabilities": "probs:0"}
    assert said == ["The preprocessing makes pictures of 160 pixels now, not 149."]


@pytest.mark.parametrize("shape", [(-1, 149, 149, 3), (-1, -1, -1, 3), (-1, 784), ()])
def test_a_size_that_fits_or_is_open_stays(shape):
    metadata, said = fitted(*shape)
    assert (metadata.image_size, metadata.preprocessing, said) == (149, PREPROCESSING, [])


def test_no_preprocessing_makes_pictures_that_are_not_square():
    metadata, said = fitted(-1, 160, 170, 3)
    assert (metadata.image_size, metadata.preprocessing) == (None, None)
    assert said == [
        "Left out: the preprocessing, which makes square pictures; the input takes 160 x 170."
    ]
