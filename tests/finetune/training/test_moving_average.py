import numpy as np
import pytest

from exporters.runtime import load_tensorflow
from finetune.training.moving_average import MovingAverage

pytestmark = pytest.mark.tensorflow


def test_averages_begin_at_the_variables_and_follow_them():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        weights = v1.get_variable("Net/weights", initializer=np.float32(1.0))
        with tf.control_dependencies([v1.assign_add(step, 1), v1.assign_add(weights, 2.0)]):
            average = MovingAverage([weights], 0.9, step)
            update = average.update()
        session.run([variable.initializer for variable in v1.global_variables()])
        session.run(weights.initializer, {weights.initializer.inputs[1]: np.float32(5.0)})
        average.begin(session)
        (kept,) = (v for v in v1.global_variables() if "ExponentialMovingAverage" in v.name)
        assert kept.op.name == "Net/weights/ExponentialMovingAverage"
        assert session.run(kept) == 5.0
        expected = 5.0
        for done in range(1, 30):
            session.run(update)
            share = min(0.9, (1 + done) / (10 + done))
            expected = share * expected + (1 - share) * (5.0 + 2.0 * done)
            assert session.run(kept) == pytest.approx(expected, rel=1e-5)
        average.begin(session, known=["Net/weights/ExponentialMovingAverage"])
        assert session.run(kept) == pytest.approx(expected, rel=1e-5)
