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
}
"""Trainable parameters with 1000 classes, as TF-Slim's own tests and other libraries count them."""


@pytest.mark.parametrize(
    "name",
    ["inception_v1", "inception_v2", "resnet_v1_50", "resnet_v2_50", "vgg_16"],
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
