"""The notes on training: rates, losses, activations, and what TensorBoard gets to see."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest

import checkpoints
from checkpoints.family import read_state
from finetune import TrainConfig, train, watch
from finetune.training.heads import leaky_relu
from finetune.training.losses import Target, count_once, cross_entropy
from finetune.training.schedules import Schedule

pytestmark = pytest.mark.tensorflow


def test_staircase_decay_against_the_formula(tf, v1, session):
    """rate * decay_rate ^ (step / decay_steps), 0.1, 0.1 and 50; the exponent floored, or not."""
    step = v1.placeholder(tf.int64, [])
    for staircase in (True, False):
        schedule = Schedule("exponential", 0.1, 200, 50, decay_rate=0.1, staircase=staircase)
        rate = schedule.tensor(step)
        for number in (0, 1, 49, 50, 75, 99, 100, 199):
            exponent = number // 50 if staircase else number / 50
            expected = 0.1 * 0.1**exponent
            assert schedule.at(number) == pytest.approx(expected)
            assert session.run(rate, {step: number}) == pytest.approx(expected, rel=1e-5)


def piecewise_loss(tf, wanted, made):
    """Ten for each that is missing, one for each that is left over."""
    return tf.reduce_sum(tf.where(tf.greater(wanted, made), 10 * (wanted - made), made - wanted))


def test_piecewise_loss(tf, v1, session):
    """Too few cost more than too many, so what is learned lies above all but an eleventh."""
    made = tf.constant([3.0, 1.0])
    loss = piecewise_loss(tf, tf.constant([1.0, 3.0]), made)
    (gradient,) = v1.gradients(loss, made)
    assert session.run(loss) == 2 * 1 + 2 * 10
    assert session.run(gradient).tolist() == [1, -10]
    demand = tf.constant(np.arange(11, dtype=np.float32))
    stock = v1.get_variable("stock", initializer=np.float32(0))
    loss = piecewise_loss(tf, demand, stock)
    train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    session.run(stock.initializer)
    for _ in range(100):
        session.run(train_op)
    assert 9 <= session.run(stock) <= 10.2


def test_leaky_relu(tf, session):
    """0.5 * (1 + leak) * x + 0.5 * (1 - leak) * |x| is x above zero and leak * x below."""
    values = np.array([-3.0, -0.5, 0.0, 0.5, 2.0], np.float32)
    found, theirs = session.run((leaky_relu(values), tf.nn.leaky_relu(values, alpha=0.2)))
    np.testing.assert_allclose(found, np.where(values > 0, values, 0.2 * values), rtol=1e-6)
    np.testing.assert_allclose(found, theirs, rtol=1e-6)


def test_cross_entropies(tf, session):
    """Softmax and sparse softmax say the same of one class; of several the sigmoid is summed."""
    logits = np.array([[2.0, -1.0, 0.5], [0.0, 1.0, -1.0]], np.float32)
    labels = np.array([0, 2], np.int64)
    one_hot = np.eye(3, dtype=np.float32)[labels]
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    dense = tf.nn.softmax_cross_entropy_with_logits(labels=one_hot, logits=logits)
    sigmoid = tf.nn.sigmoid_cross_entropy_with_logits(labels=one_hot, logits=logits)
    ours = cross_entropy(tf.constant(logits), Target(tf.constant(labels), 3))
    several = cross_entropy(tf.constant(logits), Target(tf.constant(one_hot), 3))
    sparse, dense, sigmoid, ours, several = session.run((sparse, dense, sigmoid, ours, several))
    np.testing.assert_allclose(sparse, dense, rtol=1e-6)
    assert ours == pytest.approx(sparse.mean(), rel=1e-6)
    assert several == pytest.approx(sigmoid.sum(1).mean(), rel=1e-6)


def test_a_term_of_the_collection_losses_counts_once(tf, v1, session):
    """tf.losses puts its terms into `losses` by itself; put there again, or summed, they count once."""
    weights = tf.constant([3.0, 4.0])
    entropy = v1.losses.softmax_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])
    v1.add_to_collection("losses", entropy)
    v1.add_to_collection("losses", 0.001 * tf.nn.l2_loss(weights))
    collected = v1.get_collection("losses")
    twice, once = session.run((tf.add_n(collected), tf.add_n(count_once(collected))))
    assert twice == pytest.approx(2 * np.log(2) + 0.0125)
    assert once == pytest.approx(np.log(2) + 0.0125)
    total = tf.add_n([entropy, collected[-1]])
    assert count_once([*collected, total]) == [total]


@pytest.fixture(scope="module")
def run(tf, v1, colours, tmp_path_factory):
    """A run of six steps of a net of one's own: its directory, and the keep_prob of each building."""
    module = types.ModuleType("slimtune_notes_net")

    def build(images, num_classes, is_training, dropout_keep_prob=0.5):
        kept.append((is_training, dropout_keep_prob))
        with v1.variable_scope("Net"):
            net = tf.reduce_mean(images, [1, 2])
            if is_training:
                net = tf.nn.dropout(net, rate=1 - dropout_keep_prob)
            weights = v1.get_variable("weights", [3, num_classes])
            biases = v1.get_variable("biases", [num_classes])
        return tf.matmul(net, weights) + biases, {}

    kept: list[tuple[bool, float]] = []
    module.build = build
    directory = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        train(
            TrainConfig(
                data=str(colours),
                run=str(directory),
                net=f"{module.__name__}:build",
                checkpoint="none",
                trainable=("all",),
                image_size=16,
                steps=6,
                batch_size=8,
                eval_every=3,
                dropout=0.25,
                learning_rate=0.1,
                schedule="exponential",
                decay_rate=0.1,
                decay_steps=4,
                staircase=True,
            )
        )
    return directory, kept


def events_of(v1, directory):
    """(tag, step, value) of every scalar in a run's event files."""
    return [
        (value.tag, event.step, value.simple_value)
        for path in sorted(directory.glob("events.out.tfevents.*"))
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.HasField("simple_value")
    ]


def test_tensorboard_events_read_back(v1, run):
    """What TensorBoard plots are the numbers of metrics.jsonl, and the rate is the staircase's."""
    directory, _ = run
    expected = []
    for line in (directory / "metrics.jsonl").read_text().splitlines():
        numbers = json.loads(line)
        step, split = numbers.pop("step"), numbers.pop("split")
        expected += [
            (f"{split}/{tag}", step, pytest.approx(value)) for tag, value in numbers.items()
        ]
    found = events_of(v1, directory)
    assert found == expected
    rates = {step: value for tag, step, value in found if tag == "train/learning_rate"}
    # The rate of step n is that of n - 1 steps done.
    assert rates == {
        step: pytest.approx(0.1 * 0.1 ** ((step - 1) // 4), rel=1e-5) for step in rates
    }
    assert len(set(rates.values())) == 2
    graphs = [
        event.graph_def
        for path in directory.glob("events.out.tfevents.*")
        for event in v1.train.summary_iterator(str(path))
        if event.graph_def
    ]
    names = {node.name for node in v1.GraphDef.FromString(graphs[0]).node}
    assert {"Net/weights", "Net/biases"} <= names


def test_dropout_is_told_as_a_rate_and_given_as_keep_prob(run):
    """keep_prob = 1 - rate: 0.25 dropped, 0.75 kept, in training and nowhere else."""
    _, kept = run
    assert {keep for is_training, keep in kept if is_training} == {0.75}


def test_a_run_keeps_checkpoints_by_step(run):
    """model.ckpt-STEP beside their .meta, the newest named in `checkpoint`, biases of rank one."""
    directory, _ = run
    assert [path.name for path in read_state(directory).all_paths] == [
        "model.ckpt-3",
        "model.ckpt-6",
    ]
    newest = checkpoints.latest(directory)
    assert (newest.step, newest.meta.name) == (6, "model.ckpt-6.meta")
    with checkpoints.open(newest) as saved:
        assert saved["global_step"] == 6
        assert saved["Net/biases"].shape == (3,)


def test_an_evaluator_beside_the_training(run, colours):
    """Each checkpoint once, its step read from its name, with the scores the training had."""
    directory, _ = run
    watched = watch(directory, colours, split="val")
    assert watched.ended == "finished"
    numbers = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    scores = {entry["step"]: entry["accuracy"] for entry in numbers if entry["split"] == "val"}
    assert list(scores) == [3, 6]
    assert {found.step: found.accuracy for found in watched.results} == scores
