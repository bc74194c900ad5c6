"""Training graphs become inference graphs that answer like the same net built for evaluation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exporters
from checkpoints.errors import GraphError
from exporters.graph import read_graph
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow

SHAPE = (6, 6, 2)


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def resource(request) -> bool:
    return request.param


@dataclass
class Trained:
    """A training graph that was saved, and what the same net answers when built for evaluation.

    Attributes:
      prefix: of the checkpoint; PREFIX.meta is the training graph.
      answers: batch of pictures -> what the evaluation net says.
    """

    prefix: Path
    answers: Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def train(tmp_path, resource):
    """Saves net(tf, pictures, training) as it is trained; builds it again for its answers."""

    def trained(
        net: Callable[[Any, Any, bool], Any],
        pipeline: Callable[[Any], Any] | None = None,
        fuss: bool = True,
        shape: tuple[int, ...] = SHAPE,
    ) -> Trained:
        tf = load_tensorflow()
        v1 = tf.compat.v1
        prefix = tmp_path / "run" / "model.ckpt"
        prefix.parent.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with tf.Graph().as_default():
                with v1.variable_scope("", use_resource=resource):
                    if pipeline is None:
                        pictures = v1.placeholder(tf.float32, [None, *shape], "pictures")
                        labels = v1.placeholder(tf.int64, [None], "labels")
                    else:
                        pictures, labels = pipeline(tf)
                    logits = net(tf, pictures, True)
                    if fuss:
                        add_training(tf, logits, labels)
                save(tf, prefix)
            graph = tf.Graph()
            with graph.as_default(), v1.variable_scope("", use_resource=resource):
                x = v1.placeholder(tf.float32, [None, *shape], "x")
                evaluated = net(tf, x, False)
                saver = v1.train.Saver()

        def answers(batch: np.ndarray) -> np.ndarray:
            with v1.Session(graph=graph) as session:
                saver.restore(session, str(prefix))
                return session.run(evaluated, {x: batch})

        return Trained(prefix, answers)

    return trained


def add_training(tf: Any, logits: Any, labels: Any) -> None:
    """Loss, optimiser with the updates under it, global step, accuracy and summaries."""
    v1 = tf.compat.v1
    loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
    step = v1.train.get_or_create_global_step()
    total = v1.losses.get_total_loss()
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        v1.train.RMSPropOptimizer(0.01, momentum=0.9).minimize(total, step)
    hits = tf.equal(tf.argmax(logits, 1), labels)
    v1.summary.scalar("loss", loss)
    v1.summary.scalar("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    v1.summary.histogram("logits", logits)
    v1.summary.merge_all()


def save(tf: Any, prefix: Path) -> None:
    v1 = tf.compat.v1
    generator = np.random.default_rng(1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable in v1.global_variables():
            if variable.dtype.base_dtype.is_floating:
                positive = "variance" in variable.op.name
                value = generator.uniform(0.5 if positive else -1, 1, variable.shape)
                variable.load(value.astype(variable.dtype.base_dtype.name), session)
        v1.train.Saver().save(session, str(prefix))


@pytest.fixture
def check(train, run_frozen, tmp_path):
    """Trains, converts, and compares the answers at two batch sizes."""

    def checked(net: Any, pipeline: Any = None, **options: Any) -> exporters.conversion.Conversion:
        trained = train(net, pipeline)
        done = exporters.convert(trained.prefix, tmp_path / "model.pb", **options)
        shape = done.inputs[0].shape
        assert shape is not None and shape[0] is None
        for size in (1, 5):
            batch = np.random.default_rng(size).normal(size=(size, *shape[1:])).astype(np.float32)
            output = done.outputs[0].name
            answers = run_frozen(done.path, {done.inputs[0].name: batch}, [output])[output]
            np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)
        assert done.verification.mode == "run"
        assert done.verification.passed
        return done

    return checked


def slim_net(tf: Any, pictures: Any, training: Any, **norm: Any) -> Any:
    """Convolution with batch norm in `body`, dropout, dense `head`."""
    from finetune.slim import load_slim

    slim = load_slim()
    net = slim.conv2d(
        pictures,
        3,
        3,
        normalizer_fn=slim.batch_norm,
        normalizer_params={"is_training": training, "scale": True, **norm},
        weights_regularizer=slim.l2_regularizer(0.01),
        scope="body",
    )
    net = slim.dropout(slim.flatten(net), 0.6, is_training=training, scope="dropout")
    return slim.fully_connected(net, 4, activation_fn=None, scope="head")


@pytest.mark.parametrize(
    "norm",
    [
        {"fused": True},
        {"fused": False},
        {"fused": True, "updates_collections": None},
        {"fused": False, "updates_collections": None},
        {"fused": False, "zero_debias_moving_mean": True},
        {"fused": True, "zero_debias_moving_mean": True, "center": False, "scale": False},
    ],
    ids=lambda norm: ",".join(f"{key}={value}" for key, value in norm.items()),
)
def test_slims_batch_norm_and_dropout(check, norm):
    done = check(lambda tf, x, training: slim_net(tf, x, training, **norm))
    assert any("dropout taken out" in note for note in done.notes)
    ops = {node.op for node in read_graph(done.path).nodes.values()}
    assert not {"RandomUniform", "SquaredDifference", "AssignSub"} & ops


def setting(tf: Any, training: bool, name: str = "is_training") -> Any:
    """How a net is told its mode by a placeholder; the evaluation net simply has False."""
    return tf.compat.v1.placeholder(tf.bool, [], name) if training else False


@pytest.fixture(params=["functions", "switch and merge"])
def control_flow(request):
    """Conditionals as TensorFlow 2 and as TensorFlow 1 write them."""
    v1 = load_tensorflow().compat.v1
    if request.param == "functions":
        v1.enable_control_flow_v2()
        yield request.param
    else:
        v1.disable_control_flow_v2()
        yield request.param
        v1.enable_control_flow_v2()


def skip_what_tensorflow_cannot_build(control_flow: str, fused: bool, resource: bool) -> None:
    if control_flow == "functions" and not fused and not resource:
        pytest.skip("functions cannot assign to reference variables")


@pytest.mark.parametrize("fused", [True, False])
def test_a_placeholder_for_the_mode(check, control_flow, fused, resource):
    skip_what_tensorflow_cannot_build(control_flow, fused, resource)
    done = check(lambda tf, x, training: slim_net(tf, x, setting(tf, training), fused=fused))
    assert "is_training is false, as everywhere in inference." in done.notes
    assert "Compared with the source as it was, fed is_training = false." in done.notes
    kinds = {node.op for node in read_graph(done.path).nodes.values()}
    assert not {"If", "StatelessIf", "Switch", "Merge"} & kinds


def test_a_placeholder_with_a_name_of_its_own(check, control_flow, tmp_path):
    def net(tf, x, training):
        return slim_net(tf, x, setting(tf, training, "flag"))

    done = check(net, set={"flag": False})
    assert "flag is false, as requested." in done.notes
    if control_flow == "switch and merge":
        # Both branches can be put into inference mode, so the flag decides nothing any more.
        other = exporters.convert(tmp_path / "run" / "model.ckpt", tmp_path / "other.pb")
        assert [endpoint.name for endpoint in other.inputs] == ["pictures:0", "flag:0"]
        return
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(tmp_path / "run" / "model.ckpt", tmp_path / "other.pb")
    assert "--set flag=false" in caught.value.next_step


def moments_net(tf: Any, pictures: Any, training: bool, kept: str) -> Any:
    """Batch norm as people wrote it by hand, its averages kept in one of three ways."""
    v1 = tf.compat.v1
    mode = setting(tf, training, "phase_train")
    kernel = v1.get_variable("body/weights", [3, 3, 2, 3])
    net = tf.nn.conv2d(pictures, kernel, 1, "SAME")
    scale = v1.get_variable("body/gamma", [3])
    shift = v1.get_variable("body/beta", [3])
    stored = [
        v1.get_variable(f"body/population_{name}", [3], trainable=False)
        for name in ("mean", "variance")
    ]
    if training:
        mean, variance = tf.nn.moments(net, [0, 1, 2])
        updates = [
            v1.assign(store, store * 0.9 + batch * 0.1)
            for store, batch in zip(stored, (mean, variance), strict=True)
        ]
        if kept == "updated in a branch":

            def update():
                with tf.control_dependencies(updates):
                    return tf.identity(mean), tf.identity(variance)

            mean, variance = tf.cond(mode, update, lambda: tuple(map(tf.identity, stored)))
        else:
            with tf.control_dependencies(updates):
                mean, variance = tf.identity(mean), tf.identity(variance)
    else:
        mean, variance = stored
    net = tf.nn.batch_normalization(net, mean, variance, shift, scale, 1e-3)
    weights = v1.get_variable("head/weights", [108, 4])
    return tf.matmul(tf.reshape(tf.nn.relu(net), [-1, 108]), weights, name="logits")


@pytest.mark.parametrize("kept", ["updated in a branch", "updated always"])
def test_batch_norm_written_by_hand(check, kept):
    check(lambda tf, x, training: moments_net(tf, x, training, kept))


def test_statistics_whose_dimensions_were_kept(check):
    def net(tf, x, training):
        v1 = tf.compat.v1
        stored = [
            v1.get_variable(f"population_{name}", [1, 1, 1, 2], trainable=False)
            for name in ("mean", "variance")
        ]
        squeezed = v1.get_variable("squeezed_mean", [2], trainable=False)
        mean, variance = stored
        other = tf.reshape(squeezed, [1, 1, 1, 2])
        if training:
            mean, variance = tf.nn.moments(x, [0, 1, 2], keepdims=True)
            other = tf.nn.moments(x * 2.0, [0, 1, 2], keepdims=True)[0]
            for store, batch in zip((*stored, squeezed), (mean, variance, other), strict=True):
                batch = tf.reshape(batch, store.shape)
                update = v1.assign_sub(store, (store - batch) * 0.01)
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        net = (x - mean) / tf.sqrt(variance + 1e-3) + other
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    check(net)


def test_an_exponential_moving_average_object(check, control_flow):
    def net(tf, x, training):
        v1 = tf.compat.v1
        average = tf.train.ExponentialMovingAverage(0.9)
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        update = average.apply([mean, variance])
        moved = average.average(mean), average.average(variance)
        if training:

            def with_update():
                with tf.control_dependencies([update]):
                    return tf.identity(mean), tf.identity(variance)

            mode = setting(tf, training, "train_phase")
            mean, variance = tf.cond(mode, with_update, lambda: tuple(map(tf.identity, moved)))
        else:
            mean, variance = moved
        net = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    check(net)


@pytest.mark.parametrize("op", ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])
def test_each_op_of_fused_batch_norm(check, op):
    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        empty = tf.constant([], tf.float32)
        normalised = getattr(tf.raw_ops, op)(
            x=x,
            scale=scale,
            offset=shift,
            mean=empty if training else mean,
            variance=empty if training else variance,
            is_training=training,
        )
        if training:
            updates = [
                v1.assign_add(mean, (normalised.batch_mean - mean) * 0.1),
                v1.assign_add(variance, (normalised.batch_variance - variance) * 0.1),
            ]
            for update in updates:
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(normalised.y, [-1, 72]), weights, name="logits")

    check(net)


@pytest.mark.parametrize("training_is_fed", [False, True])
@pytest.mark.parametrize("fused", [True, False])
def test_the_layers_of_tensorflow_1(check, control_flow, fused, training_is_fed, resource):
    if training_is_fed:
        skip_what_tensorflow_cannot_build(control_flow, fused, resource)

    def net(tf, x, training):
        from finetune.slim import load_slim

        load_slim()
        from tf_keras.src.legacy_tf_layers.core import dropout
        from tf_keras.src.legacy_tf_layers.normalization import batch_normalization

        mode = setting(tf, training) if training_is_fed else training
        net = batch_normalization(x, training=mode, fused=fused, name="norm")
        net = dropout(tf.reshape(tf.nn.relu(net), [-1, 72]), 0.3, training=mode)
        weights = tf.compat.v1.get_variable("head/weights", [72, 4])
        return tf.matmul(net, weights, name="logits")

    check(net)


def test_batch_norm_and_dropout_inside_a_function(train, run_frozen, tmp_path, resource):
    if not resource:
        pytest.skip("a tf.function has no reference variables")

    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        weights = v1.get_variable("head/weights", [72, 4])

        @tf.function(autograph=False)
        def layer(value):
            result = tf.raw_ops.FusedBatchNormV3(
                x=value,
                scale=scale,
                offset=shift,
                mean=mean,
                variance=variance,
                is_training=training,
                exponential_avg_factor=0.1 if training else 1.0,
            )
            if training:
                mean.assign(result.batch_mean)
                variance.assign(result.batch_variance)
            return tf.nn.dropout(result.y, 0.4) if training else result.y

        @tf.function(autograph=False)
        def outer(value):
            return tf.nn.relu(layer(value))

        return tf.matmul(tf.reshape(outer(x), [-1, 72]), weights, name="logits")

    trained = train(net)
    done = exporters.convert(trained.prefix, tmp_path / "model.pb", outputs=["logits"])
    assert "2 calls of functions were inlined." in done.notes
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, ["logits:0"])["logits:0"]
    np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)
    assert not read_graph(done.path).functions


def test_averages_that_were_never_built_are_refused(train, tmp_path):
    def net(tf, x, training):
        v1 = tf.compat.v1
        scale, shift = v1.get_variable("gamma", [2]), v1.get_variable("beta", [2])
        mean, variance = tf.zeros([2]), tf.ones([2])
        if training:
            net = v1.nn.fused_batch_norm(x, scale, shift, name="norm")[0]
        else:
            net = v1.nn.fused_batch_norm(x, scale, shift, mean, variance, is_training=False)[0]
        means = tf.nn.moments(net, [0], name="hand")
        net = tf.nn.batch_normalization(net, *means, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert (
        "norm (FusedBatchNormV3): nothing in the graph keeps a moving average of its mean"
        in caught.value.message
    )
    assert "hand/variance (Mean): takes the variance of the batch" in caught.value.message
    assert not (tmp_path / "model.pb").exists()
    kept = exporters.convert(trained.prefix, tmp_path / "kept.pb", keep_training=True)
    assert any("nodes of training were kept" in note for note in kept.notes)


def test_only_one_of_the_two_averages_is_refused(train, tmp_path):
    def net(tf, x, training):
        v1 = tf.compat.v1
        store = v1.get_variable("population_variance", [2], trainable=False)
        mean, variance = tf.nn.moments(x, [0, 1, 2], name="hand")
        update = v1.assign(store, store * 0.9 + variance * 0.1)
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        net = tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)
        weights = v1.get_variable("head/weights", [72, 4])
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert "hand/mean (Mean): is taken over the batch" in caught.value.message


def test_a_session_that_is_still_training(tmp_path, run_frozen, resource):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
            x = v1.placeholder(tf.float32, [None, *SHAPE], "pictures")
            slim_net(tf, x, True)
            with v1.Session(graph=graph) as session:
                session.run(v1.global_variables_initializer())
                session.run(v1.get_collection(v1.GraphKeys.UPDATE_OPS), {x: batch})
                done = exporters.freeze(graph, session, path=tmp_path / "model.pb")
                values = session.run({v.op.name: v for v in v1.global_variables()})
        with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
            x = v1.placeholder(tf.float32, [None, *SHAPE], "pictures")
            logits = slim_net(tf, x, False)
            with v1.Session(graph=graph) as session:
                for variable in v1.global_variables():
                    variable.load(values[variable.op.name], session)
                expected = session.run(logits, {x: batch})
    answers = run_frozen(done.path, {"pictures:0": batch}, list(done.outputs))
    np.testing.assert_allclose(answers[done.outputs[0]], expected, rtol=1e-5, atol=1e-6)


def test_averages_that_were_never_moved_are_told(train, tmp_path):
    import checkpoints

    trained = train(lambda tf, x, training: slim_net(tf, x, training))
    with checkpoints.open(trained.prefix) as saved:
        values = {name: np.array(saved[name]) for name in saved}
    values["body/BatchNorm/moving_mean"][:] = 0
    values["body/BatchNorm/moving_variance"][:] = 1
    done = exporters.freeze(f"{trained.prefix}.meta", values, path=tmp_path / "m.pb")
    assert any("1 of 1 batch norms are still at their initial values" in note for note in done.said)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_frozen_graph_in_training_mode(train, run_frozen, tmp_path, is_stored):
    """What TensorFlow's own tools make of a training graph: only some hold their averages."""

    def net(tf, x, training):
        v1 = tf.compat.v1
        names = ("gamma", "beta", "moving_mean", "moving_variance")
        scale, shift, mean, variance = (v1.get_variable(name, [2]) for name in names)
        stored = {"mean": mean, "variance": variance} if is_stored or not training else {}
        net = v1.nn.fused_batch_norm(x, scale, shift, is_training=training, **stored)[0]
        weights = v1.get_variable("head/weights", [72, 4])
        net = tf.nn.dropout(net, 0.5) if training else net
        return tf.matmul(tf.reshape(net, [-1, 72]), weights, name="logits")

    trained = train(net, fuss=False)
    exporters.convert(
        trained.prefix, tmp_path / "trained.pb", outputs=["logits"], keep_training=True
    )
    if not is_stored:
        with pytest.raises(GraphError, match="nothing in the graph keeps a moving average"):
            exporters.convert(tmp_path / "trained.pb", tmp_path / "m.pb")
        return
    done = exporters.convert(tmp_path / "trained.pb", tmp_path / "m.pb")
    batch = np.random.default_rng(0).normal(size=(3, *SHAPE)).astype(np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, ["logits:0"])["logits:0"]
    np.testing.assert_allclose(answers, trained.answers(batch), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fused", [True, False])
def test_batch_renormalisation_is_refused(train, tmp_path, fused):
    def net(tf, x, training):
        return slim_net(tf, x, training, fused=fused, renorm=True, renorm_decay=0.9)

    trained = train(net)
    with pytest.raises(GraphError, match="in training mode") as caught:
        exporters.convert(trained.prefix, tmp_path / "model.pb")
    assert "as batch renormalisation does" in caught.value.message


def test_an_output_of_a_conditional_by_its_number(train, run_frozen, tmp_path):
    """Of several outputs of one node only the first can be kept under its name."""

    def net(tf, x, training):
        mode = tf.compat.v1.placeholder(tf.bool, [], "is_training")
        bias = tf.compat.v1.get_variable("bias", [2])
        return tf.cond(mode, lambda: (x, x * 2.0), lambda: (x * 3.0, x * 4.0))[1] + bias

    trained = train(net, fuss=False)
    nodes = read_graph(f"{trained.prefix}.meta").nodes
    conditional = next(name for name, node in nodes.items() if node.op.endswith("If"))
    done = exporters.convert(trained.prefix, tmp_path / "m.pb", outputs=[f"{conditional}:1"])
    (output,) = done.outputs
    assert f"{conditional}:1 is {output.name} now." in done.notes
    batch = np.ones((2, *SHAPE), np.float32)
    answers = run_frozen(done.path, {"pictures:0": batch}, [output.name])[output.name]
    np.testing.assert_array_equal(answers, batch * 4)
