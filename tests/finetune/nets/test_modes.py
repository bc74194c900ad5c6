"""Frozen scopes are built in inference mode while others train."""

import pytest

from exporters.runtime import load_tensorflow
from finetune.nets import build_net
from finetune.nets.modes import layer_modes
from finetune.slim import load_slim

pytestmark = pytest.mark.tensorflow


def batch_norms_in_training(graph):
    return sorted(
        op.name
        for op in graph.get_operations()
        if op.type == "FusedBatchNormV3" and op.get_attr("is_training")
    )


def build(net, scopes, norms=None):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default() as graph:
        images = v1.placeholder(v1.float32, [2, 149, 149, 3])
        options = {"training_scopes": scopes, "batch_norm_scopes": norms}
        build_net(net, images, 5, is_training=True, **options)
        updates = [update.name for update in v1.get_collection(v1.GraphKeys.UPDATE_OPS)]
        return graph, updates


def test_with_the_head_alone_no_average_moves_and_only_the_heads_dropout_is_left():
    graph, updates = build("inception_v3_sample", ("InceptionV3/Logits",))
    assert batch_norms_in_training(graph) == []
    assert updates == []
    random = [
        op.name
        for op in graph.get_operations()
        if op.type == "RandomUniform" and "dropout" in op.name.lower()
    ]
    assert len(random) == 1
    assert random[0].startswith("InceptionV3/Logits/Dropout_1b")


def test_scopes_match_whole_path_parts():
    graph, updates = build("resnet_v2_50", ("resnet_v2_50/block4/unit_3", "resnet_v2_50/logits"))
    training = batch_norms_in_training(graph)
    assert training
    assert all(name.startswith("resnet_v2_50/block4/unit_3/") for name in training)
    assert len(updates) == 2 * len(training)


def test_batch_norms_may_stay_in_inference_mode_in_scopes_that_train():
    graph, updates = build("mobilenet_v1_025", None, ("MobilenetV1/Conv2d_1_depthwise",))
    (training,) = batch_norms_in_training(graph)
    assert training.startswith("MobilenetV1/Conv2d_1_depthwise/")
    assert len(updates) == 2
    assert [op for op in graph.get_operations() if "dropout" in op.name.lower()]


def test_without_scopes_the_whole_net_trains():
    graph, updates = build("inception_v3_sample", None)
    assert len(batch_norms_in_training(graph)) == 96
    assert len(updates) == 192


def test_tf_slims_own_layers_are_put_back():
    slim = load_slim()
    from tf_slim.layers import layers

    before = (slim.batch_norm, slim.dropout, layers.batch_norm, slim.layers.dropout)
    build("inception_v3_sample", ("InceptionV3/Logits",))
    assert (slim.batch_norm, slim.dropout, layers.batch_norm, slim.layers.dropout) == before


@pytest.mark.filterwarnings("ignore:`layer.apply` is deprecated")
@pytest.mark.parametrize("by_place", [False, True])
def test_dropout_outside_the_trained_scopes_drops_nothing_and_inside_by_the_step(by_place):
    tf, slim = load_tensorflow(), load_slim()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        values = tf.ones([4, 50])
        with (
            layer_modes(("Net/Logits",), step=step),
            slim.arg_scope([slim.dropout], is_training=True),
            v1.variable_scope("Net"),
        ):
            more = (None, True) if by_place else ()
            outside = slim.dropout(values, 0.5, *more, scope="Body")
            with v1.variable_scope("Logits"):
                inside = slim.dropout(values, 0.5, *more)
        session.run(v1.global_variables_initializer())
        kept, dropped = session.run([outside, inside])
    assert (kept == 1.0).all()
    assert set(dropped.ravel()) == {0.0, 2.0}
