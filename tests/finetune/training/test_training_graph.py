"""The graph of a step: what keeps its bits the same each time."""

import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.config import TrainConfig
from finetune.training.graph import build_training_net, build_training_step
from finetune.training.losses import Target
from finetune.training.phases import make_phases
from finetune.training.precision import training_session_config

pytestmark = pytest.mark.tensorflow


def test_gradients_are_added_two_by_two_and_nothing_joins_the_sums_again():
    from checkpoints.published import get_net

    tf = load_tensorflow()
    v1 = tf.compat.v1
    net = get_net("inception_v3_sample")
    config = TrainConfig(data="d", run="r", trainable=("all",))
    (phase,) = make_phases(config, net, 10, 100)
    with tf.Graph().as_default() as graph:
        images = tf.constant(np.zeros((2, 107, 107, 3), np.float32))
        built = build_training_net(net, images, 3, phase, config)
        target = Target(tf.constant([0, 2], tf.int64), 3)
        build_training_step(built, target, phase, v1.trainable_variables(), config)
    sums = [
        op
        for op in graph.get_operations()
        if op.type == "AddN" and op.outputs[0].shape.rank and "gradient" in op.name
    ]
    assert len(sums) > 30
    assert {len(op.inputs) for op in sums} == {2}
    rewrites = training_session_config("fp32").graph_options.rewrite_options
    assert rewrites.arithmetic_optimization == type(rewrites).OFF
