from __future__ import annotations

import pytest

from checkpoints.names import role


def roles(*names):
    return {name: role(name, set(names)) for name in names}


def test_a_slim_training_checkpoint():
    model = [
        "InceptionV3/Conv2d_1a_3x3/weights",
        "InceptionV3/Conv2d_1a_3x3/BatchNorm/beta",
        "InceptionV3/Conv2d_1a_3x3/BatchNorm/moving_mean",
        "InceptionV3/Conv2d_1a_3x3/BatchNorm/moving_variance",
        "InceptionV3/Logits/Conv2d_1c_1x1/biases",
        "vgg_16/mean_rgb",
    ]
    ema = [
        f"{model[0]}/ExponentialMovingAverage",
        f"{model[2]}/ExponentialMovingAverage",
    ]
    slots = [f"{model[0]}/RMSProp", f"{model[0]}/RMSProp_1", f"{model[1]}/Momentum"]
    found = roles(*model, *ema, *slots, "global_step")
    assert [found[name] for name in model] == ["model"] * len(model)
    assert [found[name] for name in ema] == ["ema"] * 2
    assert [found[name] for name in slots] == ["slot"] * 3
    assert found["global_step"] == "step"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("w", "model"),
        ("w/Adam", "slot"),
        ("w/Adam_1", "slot"),
        ("gone/w/Adam", "slot"),
        ("OptimizeLoss/w/Adam", "slot"),
        ("OptimizeLoss/beta1_power", "slot"),
        ("beta2_power_1", "slot"),
        ("beta1_power", "slot"),
        ("Adam/learning_rate", "slot"),
        ("training/Adam/iter", "slot"),
        ("optimizer/beta_1", "slot"),
        ("w/m", "slot"),
        ("w/adam_v", "slot"),
        ("Adam/w/v", "slot"),
        # Names of nets that look like bookkeeping.
        ("Momentum/weights", "model"),
        ("Adam", "model"),
        ("decoder/m", "model"),
        ("attention/v", "model"),
        ("embedding/linear", "model"),
        ("block/decay", "model"),
        ("BatchNorm/beta", "model"),
        ("net/epsilon", "model"),
        ("net/learning_rate", "model"),
        ("ExponentialMovingAverage", "model"),
        ("w/ExponentialMovingAverage", "ema"),
        ("net/w/ExponentialMovingAverage_1", "ema"),
        ("w/ExponentialMovingAverage/biased", "ema"),
        ("w/ExponentialMovingAverage/local_step", "ema"),
        ("global_step", "step"),
        ("worker/global_step", "step"),
        ("global_step/.ATTRIBUTES/VARIABLE_VALUE", "step"),
        ("w/biased", "other"),
        ("w/local_step", "other"),
        ("net/biased", "model"),
        ("input_producer/limit_epochs/epochs", "other"),
        ("eval_step", "other"),
        ("_CHECKPOINTABLE_OBJECT_GRAPH", "other"),
        ("save_counter/.ATTRIBUTES/VARIABLE_VALUE", "other"),
        ("layer/kernel/.ATTRIBUTES/VARIABLE_VALUE", "model"),
        ("layer/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE", "slot"),
        ("optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE", "slot"),
        ("optimizer/_iterations/.ATTRIBUTES/VARIABLE_VALUE", "slot"),
        ("optimizer/_variables/3/.ATTRIBUTES/VARIABLE_VALUE", "slot"),
        ("table/.ATTRIBUTES/table-keys", "other"),
        ("_variables/3", "model"),
        # Keras' names of slots.
        ("Adam/m/w", "slot"),
        ("Adam/m/gone", "model"),
        ("adam/sequential_dense_kernel_momentum", "slot"),
        ("adam/dense_kernel_velocity_hat", "slot"),
        ("dense/kernel_momentum", "model"),
    ],
)
def test_roles(name, expected):
    assert role(name, {"w", "block/w", name}) == expected


@pytest.mark.tensorflow
def test_the_slots_of_every_optimiser_of_tensorflow_1(tensorflow):
    tf = tensorflow.compat.v1
    optimisers = {
        "Adadelta": lambda: tf.train.AdadeltaOptimizer(),
        "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
        "AdagradDA": lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_global_step()),
        "Adam": lambda: tf.train.AdamOptimizer(),
        "Ftrl": lambda: tf.train.FtrlOptimizer(0.1),
        "GradientDescent": lambda: tf.train.GradientDescentOptimizer(0.1),
        "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
        "ProximalAdagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
        "RMSProp": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    }
    for kind, make in optimisers.items():
        with tensorflow.Graph().as_default():
            step = tf.train.get_or_create_global_step()
            model = [tf.get_variable("net/w", [2]), tf.get_variable("net/sub/b", [2])]
            loss = tf.add_n([tf.reduce_sum(tf.square(variable)) for variable in model])
            make().minimize(loss, step)
            average = tf.train.ExponentialMovingAverage(0.9, step)
            average.apply(model)
            names = [variable.op.name for variable in tf.global_variables()]
        found = {name: role(name, set(names)) for name in names}
        assert [name for name in names if found[name] == "model"] == ["net/w", "net/sub/b"], kind
        assert [name for name in names if found[name] == "step"] == ["global_step"], kind
        assert sorted(name for name in names if found[name] == "ema") == [
            "net/sub/b/ExponentialMovingAverage",
            "net/w/ExponentialMovingAverage",
        ]
        assert "other" not in found.values(), kind


@pytest.mark.tensorflow
def test_an_object_based_checkpoint(tensorflow, tmp_path):
    import checkpoints

    class Net(tensorflow.Module):
        def __init__(self):
            super().__init__()
            self.kernel = tensorflow.Variable([[1.0]])

    root = tensorflow.train.Checkpoint(net=Net(), global_step=tensorflow.Variable(3))
    path = root.save(str(tmp_path / "m"))
    with checkpoints.open(path, plain_names=False) as saved:
        assert {name: role(name, saved) for name in saved} == {
            "_CHECKPOINTABLE_OBJECT_GRAPH": "other",
            "global_step/.ATTRIBUTES/VARIABLE_VALUE": "step",
            "net/kernel/.ATTRIBUTES/VARIABLE_VALUE": "model",
            "save_counter/.ATTRIBUTES/VARIABLE_VALUE": "other",
        }
        assert saved["_CHECKPOINTABLE_OBJECT_GRAPH"].shape == ()
