"""Every registered net builds, under the scopes and end points its record names."""

import numpy as np
import pytest

from checkpoints.published import NETS
from checkpoints.scopes import in_scope
from exporters.runtime import load_tensorflow
from finetune.nets import build_net

pytestmark = pytest.mark.tensorflow

PARAMETERS = {
    "inception_v1": 5_607_184 - 14_560 + 1024 * 1000 + 1000,  # base less averages, and a head
    "resnet_v1_50": 25_557_032,
    "resnet_v2_50": 25_568_360,
    "vgg_16": 138_357_544,
    "mobilenet_v1": 4_231_976,
}
"""Trainable parameters with 1000 classes, as TF-Slim's own tests and other libraries count them."""


@pytest.mark.parametrize(
    "name",
    ["inception_v1", "inception_v2", "resnet_v1_50", "resnet_v2_50", "vgg_16", "mobilenet_v1"],
)
def test_a_net_has_the_heads_bottleneck_and_parameters_of_its_record(name):
    record = NETS[name]
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default():
        images = v1.placeholder(v1.float32, [None, record.image_size, record.image_size, 3])
        net = build_net(record, images, 1000)
        names = [variable.op.name for variable in v1.global_variables()]
        trained = sum(int(np.prod(v.shape.as_list())) for v in v1.trainable_variables())
    assert net.logits.shape.as_list() == [None, 1000]
    assert net.bottleneck.shape.as_list()[1:3] == [1, 1]
    assert all(in_scope(variable, record.scope) for variable in names)
    for scope in record.head_scopes:
        assert any(in_scope(variable, scope) for variable in names)
    if name in PARAMETERS:
        assert trained == PARAMETERS[name]


def test_mobilenet_v1_answers_like_the_published_frozen_graph(shared):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    frozen = v1.GraphDef()
    frozen.ParseFromString((shared / "data/models/mobilenet_v1_1.0_224/frozen.pb").read_bytes())
    constants = {
        node.name: tf.make_ndarray(node.attr["value"].tensor)
        for node in frozen.node
        if node.op == "Const"
    }
    pictures = np.random.default_rng(3).uniform(-1, 1, (2, 224, 224, 3)).astype(np.float32)
    with v1.Graph().as_default(), v1.Session() as session:
        images = v1.placeholder(v1.float32, [None, 224, 224, 3])
        net = build_net("mobilenet_v1", images, 1001)
        feeds = {v.initializer.inputs[1]: constants[v.op.name] for v in v1.global_variables()}
        session.run([v.initializer for v in v1.global_variables()], feeds)
        ours = session.run(net.logits, {images: pictures})
    with v1.Graph().as_default() as graph, v1.Session() as session:
        v1.import_graph_def(frozen, name="")
        logits = graph.get_tensor_by_name("MobilenetV1/Predictions/Reshape:0")
        theirs = [session.run(logits, {"input:0": picture[None]})[0] for picture in pictures]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    assert (ours.argmax(1) == np.argmax(theirs, 1)).all()
