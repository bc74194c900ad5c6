"""The base that ships: what its files hold, and that it knows shapes it has never seen."""

from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from checkpoints.published import CHECKPOINTS
from finetune.sample.base import BASE_DIR, PREFIX, is_average
from finetune.sample.shapes import KINDS

FILES = ["base.json", "labels.txt", "model.ckpt.data-00000-of-00001", "model.ckpt.index"]


def test_the_files_are_small():
    assert sorted(path.name for path in BASE_DIR.iterdir()) == FILES
    assert sum(path.stat().st_size for path in BASE_DIR.iterdir()) < 4_000_000


def test_the_record_names_these_files():
    record = CHECKPOINTS["sample"]
    assert record.bundled is not None
    assert (BASE_DIR / PREFIX).as_posix().endswith(record.bundled)
    assert record.classes == len(KINDS)


def test_the_page_of_the_base_agrees_with_its_files():
    told = json.loads((BASE_DIR / "base.json").read_text("utf-8"))
    assert (BASE_DIR / "labels.txt").read_text("utf-8").splitlines() == list(KINDS)
    assert told["classes"] == len(KINDS)
    assert told["held_out_accuracy"] >= 0.9
    assert sum(stage["steps"] for stage in told["recipe"]["stages"]) == told["steps"]
    with checkpoints.open(BASE_DIR / PREFIX) as saved:
        weights = [saved[name] for name in saved if not is_average(name)]
    assert sum(values.size for values in weights) == told["parameters"]
    assert 1_390_000 < told["parameters"] < 1_420_000


def test_weights_are_float16_and_averages_float32():
    with checkpoints.open(BASE_DIR / PREFIX) as saved:
        for name in saved:
            values = saved[name]
            assert values.dtype == (np.float32 if is_average(name) else np.float16), name
            assert np.isfinite(values).all(), name
        variances = [saved[name] for name in saved if name.endswith("moving_variance")]
    assert len(variances) == 94
    assert all((values >= 0).all() for values in variances)


@pytest.mark.tensorflow
def test_names_and_shapes_are_those_of_the_net():
    from finetune.nets.build import inference_graph

    net = inference_graph("inception_v3_sample", len(KINDS))
    wanted = {v.name: v.shape for v in net.variables if "/AuxLogits/" not in v.name}
    with checkpoints.open(BASE_DIR / PREFIX) as saved:
        assert {name: saved[name].shape for name in saved} == wanted


@pytest.mark.tensorflow
def test_it_knows_held_out_shapes():
    from exporters.runtime import load_tensorflow
    from finetune.nets.build import build_net
    from finetune.planning import load_values
    from finetune.sample.pretrain import central_crop, draw_held_out

    pictures, labels = draw_held_out(3)
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        logits = build_net("inception_v3_sample", central_crop(pictures), len(KINDS)).logits
        with checkpoints.open(BASE_DIR / PREFIX) as saved:
            every = {variable.op.name: variable for variable in v1.global_variables()}
            values = {name: saved[name].astype(np.float32) for name in saved if name in every}
            load_values(session, every, values)
        session.run(v1.variables_initializer(v1.global_variables("InceptionV3/AuxLogits")))
        answers = session.run(logits).argmax(axis=1)
    assert (answers == labels).mean() >= 0.9
