"""Inception-v3 as tf_slim.nets builds it: every end point, its shape, the variables, the counts."""

import math

import pytest

from exporters.runtime import load_tensorflow
from finetune.nets import build_net, inference_graph

pytestmark = pytest.mark.tensorflow

END_POINTS_AT_299 = {
    "Conv2d_1a_3x3": [2, 149, 149, 32],
    "Conv2d_2a_3x3": [2, 147, 147, 32],
    "Conv2d_2b_3x3": [2, 147, 147, 64],
    "MaxPool_3a_3x3": [2, 73, 73, 64],
    "Conv2d_3b_1x1": [2, 73, 73, 80],
    "Conv2d_4a_3x3": [2, 71, 71, 192],
    "MaxPool_5a_3x3": [2, 35, 35, 192],
    "Mixed_5b": [2, 35, 35, 256],
    "Mixed_5c": [2, 35, 35, 288],
    "Mixed_5d": [2, 35, 35, 288],
    "Mixed_6a": [2, 17, 17, 768],
    "Mixed_6b": [2, 17, 17, 768],
    "Mixed_6c": [2, 17, 17, 768],
    "Mixed_6d": [2, 17, 17, 768],
    "Mixed_6e": [2, 17, 17, 768],
    "Mixed_7a": [2, 8, 8, 1280],
    "Mixed_7b": [2, 8, 8, 2048],
    "Mixed_7c": [2, 8, 8, 2048],
    "AuxLogits": [2, 1001],
    "PreLogits": [2, 1, 1, 2048],
    "Logits": [2, 1001],
    "Predictions": [2, 1001],
}


@pytest.fixture(scope="module")
def built():
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default():
        images = v1.placeholder(v1.float32, [2, 299, 299, 3])
        net = build_net("inception_v3", images, 1001)
        return net, v1.global_variables(), v1.trainable_variables()


def test_every_end_point_has_its_shape(built):
    shapes = {name: tensor.shape.as_list() for name, tensor in built[0].end_points.items()}
    assert shapes == END_POINTS_AT_299
    assert list(shapes) == list(END_POINTS_AT_299)


def test_it_has_388_variables_of_which_196_train(built):
    _, variables, trainable = built
    assert len(variables) == 388
    assert len(trainable) == 196
    assert len({variable.op.name for variable in variables}) == 388


def test_the_base_has_the_parameters_that_tf_slim_counts(built):
    _, variables, trainable = built
    heads = ("InceptionV3/Logits", "InceptionV3/AuxLogits")

    def parameters(chosen):
        base = [v for v in chosen if not v.op.name.startswith(heads)]
        return sum(math.prod(v.shape.as_list()) for v in base)

    assert parameters(variables) == 21_802_784
    assert parameters(trainable) == 21_802_784 - 2 * 17_216


def test_logits_and_predictions_are_what_the_record_names(built):
    net = built[0]
    assert net.logits is net.end_points["Logits"]
    assert net.bottleneck.shape.as_list() == [2, 1, 1, 2048]
    assert net.predictions.shape.as_list() == [2, 1001]


def test_an_inference_graph_has_a_free_batch_and_named_tensors():
    graph = inference_graph("inception_v3_sample", 7)
    tf = load_tensorflow()
    with tf.Graph().as_default() as imported:
        tf.import_graph_def(graph.graph_def, name="")
        shapes = {
            name: imported.get_tensor_by_name(name).shape.as_list()
            for name in (graph.input, graph.logits, graph.probabilities, graph.bottleneck)
        }
    assert shapes == {
        "input:0": [None, 149, 149, 3],
        graph.logits: [None, 7],
        "probabilities:0": [None, 7],
        graph.bottleneck: [None, 1, 1, 512],
    }
    assert len(graph.variables) == 388
    assert not any(
        node.op in ("RandomUniform", "FusedBatchNormGrad") for node in graph.graph_def.node
    )
