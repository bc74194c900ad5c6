import json
import types

import numpy as np
import pytest

from checkpoints.errors import UnsupportedError
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, train
from finetune.training import precision
from finetune.training.precision import (
    Trial,
    choose,
    differences,
    has_bfloat16,
    has_gpu,
    time_steps,
    training_session_config,
    why_float32,
)

LOGITS = np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32)


def trial(seconds, loss=1.0, noise=0.0):
    off = noise * np.random.default_rng(1).normal(size=LOGITS.shape)
    return Trial(seconds, loss, (LOGITS + off).astype(np.float32))


@pytest.fixture
def capable(monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: True)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fpu avx512_bf16 amx_tile", True), ("amx_bf16", True), ("avx512f avx512_bf16x", False)],
)
def test_the_cpus_flags_say_whether_it_is_worth_trying(tmp_path, flags, expected):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\nbugs : none\n")
    assert has_bfloat16(tmp_path / "cpuinfo") == expected
    assert not has_bfloat16(tmp_path / "absent")


def test_the_faster_that_agrees_is_taken():
    name, why = choose(trial(0.2), lambda: trial(0.1, loss=1.005, noise=0.01), 1000)
    assert name == "bf16"
    assert why.startswith("Precision bf16: a step takes 200 ms in fp32, 100 ms in bf16; loss ")
    assert why.endswith("within 2% and 5%.")
    assert choose(trial(0.2), lambda: trial(0.21), 1000)[0] == "fp32"


@pytest.mark.parametrize(
    "other",
    [
        trial(0.1, loss=1.03),
        trial(0.1, noise=0.2),
        trial(0.1, loss=float("nan")),
        Trial(0.1, 1.0, np.full_like(LOGITS, np.nan)),
    ],
)
def test_what_does_not_agree_is_not_taken_however_fast(other):
    name, why = choose(trial(0.2), lambda: other, 1000)
    assert name == "fp32"
    assert why.endswith("beyond 2% and 5%.")


def test_a_short_phase_is_not_worth_a_trial():
    name, why = choose(trial(0.2), lambda: pytest.fail("tried"), 100)
    assert (name, why) == (
        "fp32",
        "Precision fp32: 100 steps of about 200 ms are too few for a trial of bf16 to pay.",
    )


def test_without_the_instructions_nothing_is_tried_and_bf16_is_refused(monkeypatch):
    monkeypatch.setattr(precision, "has_bfloat16", lambda: False)
    assert why_float32() == "Precision fp32: this CPU does not compute in bfloat16."
    with pytest.raises(UnsupportedError, match="does not compute in bfloat16"):
        training_session_config("bf16")


@pytest.fixture
def gpu(capable, monkeypatch):
    """A GPU beside a CPU that computes in bfloat16."""
    devices = {"GPU": [types.SimpleNamespace(name="/physical_device:GPU:0")]}
    config = load_tensorflow().config
    monkeypatch.setattr(config, "list_physical_devices", lambda kind: devices.get(kind, []))


@pytest.mark.tensorflow
def test_where_a_gpu_runs_the_steps_they_run_in_fp32_and_that_is_said(gpu):
    assert has_gpu()
    assert why_float32() == (
        "Precision fp32: steps run on a GPU; mixed float16 needs its loss scaled, which is not done "
        "here."
    )
    with pytest.raises(UnsupportedError, match="Steps run on a GPU") as caught:
        training_session_config("bf16")
    assert caught.value.received == "/physical_device:GPU:0"
    rewrites = training_session_config("fp32").graph_options.rewrite_options
    assert rewrites.auto_mixed_precision == type(rewrites).DEFAULT
    assert rewrites.auto_mixed_precision_onednn_bfloat16 == type(rewrites).DEFAULT


@pytest.mark.tensorflow
def test_a_run_on_a_gpu_says_its_precision_and_keeps_it(gpu, colours, tmp_path, tiny_net, heard):
    options = {"net": "tiny", "checkpoint": "none", "steps": 1, "batch_size": 8}
    train(TrainConfig(data=str(colours), run=str(tmp_path / "run"), **options), progress=heard)
    assert why_float32() in heard.said
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["precision"] == "fp32"


@pytest.mark.tensorflow
def test_without_a_gpu_a_cpu_that_can_is_asked(capable):
    assert not has_gpu()
    assert why_float32() is None


def test_differences_are_shares_of_the_loss_and_of_the_spread_of_the_logits():
    loss, logits = differences(trial(1.0, loss=4.0), trial(1.0, loss=4.4))
    assert (loss, logits) == (pytest.approx(0.1), 0.0)
    shifted = Trial(1.0, 4.0, LOGITS + 0.1 * LOGITS.std())
    assert differences(trial(1.0, loss=4.0), shifted)[1] == pytest.approx(0.1, rel=1e-4)


@pytest.mark.tensorflow
def test_a_trial_changes_no_variable_and_sees_the_first_batch():
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        fed = v1.placeholder(tf.float32, [2, 3])
        weights = v1.get_variable("w", initializer=np.ones((3, 2), np.float32))
        logits = fed @ weights
        loss = tf.reduce_sum(logits)
        gradients = tf.group(*tf.gradients(loss, [weights]))
        session.run(weights.initializer)
        batches = iter(np.arange(24, dtype=np.float32).reshape(4, 2, 3))
        found = time_steps(session, loss, logits, gradients, lambda: {fed: next(batches)})
        np.testing.assert_array_equal(found.logits, [[3, 3], [12, 12]])
        assert found.loss == 30.0 and found.seconds > 0
        np.testing.assert_array_equal(session.run(weights), np.ones((3, 2)))


@pytest.mark.tensorflow
def test_bfloat16_really_computes_in_bfloat16():
    if not has_bfloat16():
        pytest.skip("this CPU does not compute in bfloat16")
    tf = load_tensorflow()
    v1 = tf.compat.v1
    one = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    answers = {}
    for name in ("fp32", "bf16"):
        with tf.Graph().as_default() as graph:
            fed = v1.placeholder(tf.float32, [64, 256])
            weights = v1.get_variable("w", initializer=one.T.copy())
            # What is fetched keeps its type: something has to come after the product.
            product = tf.matmul(fed, weights) + 1.0
            with v1.Session(graph=graph, config=training_session_config(name)) as session:
                session.run(weights.initializer)
                answers[name] = session.run(product, {fed: one})
    assert answers["bf16"].dtype == np.float32
    apart = np.abs(answers["bf16"] - answers["fp32"]).max() / np.abs(answers["fp32"]).max()
    assert 1e-5 < apart < 2e-2
