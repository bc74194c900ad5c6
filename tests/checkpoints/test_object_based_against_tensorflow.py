"""What TensorFlow and Keras save by objects, read by name; a Saver restores the copy by name."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
from checkpoints.names import OBJECT_GRAPH_KEY

pytestmark = pytest.mark.tensorflow


def agrees_with_tensorflow(tensorflow, prefix, same):
    """Every key but the object graph has one name, and TensorFlow's values."""
    from tensorflow.python.training.saver import object_graph_key_mapping

    reader = tensorflow.train.load_checkpoint(str(prefix))
    with checkpoints.open(prefix) as saved:
        keys = saved.objects.keys
        assert sorted([*keys.values(), OBJECT_GRAPH_KEY]) == sorted(
            reader.get_variable_to_shape_map()
        )
        for name, key in keys.items():
            assert same(saved[name], np.asarray(reader.get_tensor(key))), name
    # How TensorFlow's own Saver finds its variables in an object-based checkpoint.
    mapping = object_graph_key_mapping(str(prefix))
    assert all(mapping.get(name, key) == key for name, key in keys.items())


def restores_by_name(tensorflow, prefix, same):
    """A Saver of a TensorFlow 1 graph with variables of these names restores them."""
    tf = tensorflow.compat.v1
    with checkpoints.open(prefix) as saved:
        values = {name: saved[name] for name in saved if saved.variables[name].dtype != object}
    with tensorflow.Graph().as_default():
        variables = {
            name: tf.get_variable(
                name, value.shape, value.dtype.name, tf.zeros_initializer(), use_resource=False
            )
            for name, value in values.items()
        }
        saver = tf.train.Saver()
        with tf.Session() as session:
            saver.restore(session, str(prefix))
            restored = session.run(variables)
    assert restored.keys() == values.keys()
    assert all(same(np.asarray(restored[name]), values[name]) for name in values)


@pytest.fixture
def name_based(tmp_path):
    def convert(prefix, version):
        with checkpoints.open(prefix) as saved:
            return checkpoints.write(tmp_path / f"by_name_{version}", saved, version=version).prefix

    return convert


def test_a_module_with_an_optimizer_of_tensorflow_1(tensorflow, tmp_path, same, name_based):
    class Net(tensorflow.Module):
        def __init__(self):
            super().__init__()
            make = tensorflow.Variable
            self.weights = make(np.float32([[1, 2], [3, 4]]), name="fc/weights")
            self.biases = make(np.float32([5, 6]), name="fc/biases")
            self.shared = {"again": self.weights, "list": [self.biases, [self.weights]]}
            self.nested = [make(1.5, name="inner"), {"x": (make(True, name="flag"),)}]
            self.twins = [make(7, name="twin"), make(8, name="twin")]

    net = Net()
    optimizer = tensorflow.compat.v1.train.AdamOptimizer(0.1)
    optimizer.minimize(
        lambda: tensorflow.reduce_sum(net.weights) + tensorflow.reduce_sum(net.biases)
    )
    step = tensorflow.Variable(12, dtype=tensorflow.int64, name="global_step")
    prefix = tensorflow.train.Checkpoint(net=net, optimizer=optimizer, step=step).save(
        str(tmp_path / "m")
    )
    agrees_with_tensorflow(tensorflow, prefix, same)
    with checkpoints.open(prefix) as saved:
        assert {name: saved.role(name) for name in saved} == {
            "beta1_power": "slot",
            "beta2_power": "slot",
            "fc/biases": "model",
            "fc/biases/Adam": "slot",
            "fc/biases/Adam_1": "slot",
            "fc/weights": "model",
            "fc/weights/Adam": "slot",
            "fc/weights/Adam_1": "slot",
            "flag": "model",
            "global_step": "step",
            "inner": "model",
            "net/twins/0": "model",
            "net/twins/1": "model",
            "save_counter": "other",
        }
        assert same(saved["fc/weights"], net.weights.numpy())
        assert same(saved["fc/weights/Adam"], optimizer.get_slot(net.weights, "m").numpy())
        assert (saved["net/twins/0"], saved["net/twins/1"]) == (7, 8)
        assert saved.objects.notes == (
            "2 variables listed by path or key, since several have one name, as 'twin'.",
        )
    for version in ("v1", "v2"):
        restores_by_name(tensorflow, name_based(prefix, version), same)


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop", "legacy"])
def test_a_keras_model(tensorflow, tmp_path, same, name_based, optimizer):
    import tf_keras

    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((3,)),
            tf_keras.layers.Dense(2, name="hidden"),
            tf_keras.layers.BatchNormalization(name="norm"),
        ]
    )
    made = (
        tf_keras.optimizers.legacy.Adam()
        if optimizer == "legacy"
        else getattr(tf_keras.optimizers, optimizer)()
    )
    model.compile(made, "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    prefix = tmp_path / "weights"
    model.save_weights(str(prefix))
    agrees_with_tensorflow(tensorflow, prefix, same)
    with checkpoints.open(prefix) as saved:
        model_names = {variable.name.removesuffix(":0") for variable in model.variables}
        assert {name for name in saved if saved.role(name) == "model"} == model_names
        assert {saved.role(name) for name in saved} <= {"model", "slot", "other"}
        assert same(saved["hidden/kernel"], model.get_layer("hidden").kernel.numpy())
    restores_by_name(tensorflow, name_based(prefix, "v2"), same)


def test_a_model_of_keras_3(tensorflow, tmp_path, same, name_based):
    keras = tensorflow.keras
    model = keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(2, name="hidden")], name="net"
    )
    model.compile("adam", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    prefix = tensorflow.train.Checkpoint(model=model, optimizer=model.optimizer).write(
        str(tmp_path / "m")
    )
    agrees_with_tensorflow(tensorflow, prefix, same)
    with checkpoints.open(prefix) as saved:
        roles = {name: saved.role(name) for name in saved}
    assert {name for name, role in roles.items() if role == "model"} == {
        "net/hidden/kernel",
        "net/hidden/bias",
    }
    assert roles["adam/net_hidden_kernel_velocity"] == roles["adam/iteration"] == "slot"
    copy = name_based(prefix, "v2")
    with checkpoints.open(copy) as named:
        # The names alone tell the same.
        assert {name: named.role(name) for name in named} == roles
    restores_by_name(tensorflow, copy, same)


def test_variables_of_a_partitioned_one_are_kept_apart(tensorflow, tmp_path, same, name_based):
    tf = tensorflow.compat.v1
    with tensorflow.Graph().as_default():
        whole = tf.get_variable(
            "net/w",
            [5, 2],
            initializer=tf.random_uniform_initializer(),
            partitioner=tf.fixed_size_partitioner(2),
        )
        root = tf.train.Checkpoint(parts=list(whole))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            prefix = root.save(str(tmp_path / "m"), session=session)
            values = session.run(list(whole))
    agrees_with_tensorflow(tensorflow, prefix, same)
    with checkpoints.open(prefix) as saved:
        assert [name for name in saved if saved.role(name) == "model"] == ["parts/0", "parts/1"]
        assert all(same(saved[f"parts/{i}"], values[i]) for i in range(2))


def test_the_variables_of_a_saved_model(tensorflow, tmp_path, same, name_based):
    module = tensorflow.Module()
    module.scale = tensorflow.Variable(2.0, name="scale")
    module.table = tensorflow.lookup.experimental.MutableHashTable(
        tensorflow.string, tensorflow.int64, -1
    )
    module.table.insert(tensorflow.constant(["a"]), tensorflow.constant([3], tensorflow.int64))
    tensorflow.saved_model.save(module, str(tmp_path / "saved"))
    agrees_with_tensorflow(tensorflow, tmp_path / "saved/variables/variables", same)
    with checkpoints.open(tmp_path / "saved") as saved:
        assert list(saved) == [
            "scale",
            "table/.ATTRIBUTES/table-keys",
            "table/.ATTRIBUTES/table-values",
        ]
        assert saved["table/.ATTRIBUTES/table-keys"].tolist() == [b"a"]


def test_the_state_of_an_iterator_is_left_out_and_named(tensorflow, tmp_path):
    iterator = iter(tensorflow.data.Dataset.range(3))
    root = tensorflow.train.Checkpoint(it=iterator, w=tensorflow.Variable(1.0, name="w"))
    prefix = root.write(str(tmp_path / "m"))
    for plain_names in (True, False):
        with checkpoints.open(prefix, plain_names=plain_names) as saved:
            assert saved.objects.notes == (
                "it/.ATTRIBUTES/ITERATOR_STATE holds a variant, which cannot be read:"
                " it is left out.",
            )
    with checkpoints.open(prefix) as saved:
        assert dict(saved) == {"w": 1.0}


def test_a_saved_model_of_tensorflow_1_is_name_based(shared, tensorflow, same):
    folder = shared / "data/models/half_plus_two_saved_model"
    with checkpoints.open(folder) as saved:
        assert saved.objects is None
        assert {name: saved[name].item() for name in saved} == {
            "a": 0.5, "a2": 0.5, "b": 2.0, "c": 3.0, "c2": 3.0,
        }  # fmt: skip
    restores_by_name(tensorflow, folder / "variables/variables", same)


def test_the_step_of_a_loop_of_ones_own(tensorflow, tmp_path):
    """tf.train.Checkpoint(step=...), as TensorFlow's guide has it."""
    tf = tensorflow
    made = tf.train.Checkpoint(
        step=tf.Variable(5, dtype=tf.int64), rate=tf.Variable(0.5), w=tf.Variable([1.0, 2.0])
    )
    prefix = made.write(str(tmp_path / "m"))
    with checkpoints.open(prefix) as saved:
        (step,) = [name for name in saved if saved.role(name) == "step"]
        assert saved[step] == 5
    other = tf.train.Checkpoint(step=tf.Variable([1.0, 2.0])).write(str(tmp_path / "n"))
    with checkpoints.open(other) as saved:
        assert "step" not in {saved.role(name) for name in saved}
