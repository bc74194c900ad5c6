"""Several processes train what one would: over sockets of this machine, with the tiny net."""

import json
import os
import shutil
import signal
import socket
import time

import numpy as np
import pytest

import checkpoints
from finetune.run import Run
from finetune.training.precision import has_bfloat16

pytestmark = pytest.mark.tensorflow

OPTIONS = {
    "net": "tiny",
    "checkpoint": "none",
    "trainable": ["all"],
    "batch_norm_decay": 1.0,
    "batch_size": 12,
    "steps": 10,
    "optimizer": "momentum",
    "learning_rate": 0.05,
    "clip_norm": 2.0,
    "dropout": 0.0,
    "ema": 0.9,
    "eval_every": 5,
    "precision": "fp32",
    "seed": 5,
}
"""Batch norms in inference mode and nothing dropped: what is left is the same for any division."""


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def begin(forks, data, run, count, **changes):
    """Starts the same command so often; gives the process numbers, the chief's first."""
    hosts = free_addresses(count)
    cluster = [
        f'{{"cluster": {{"chief": ["{hosts[0]}"], "worker": {[*hosts[1:]]}}}, '
        f'"task": {{"type": "{"worker" if index else "chief"}", "index": {max(0, index - 1)}}}}}'
        for index in range(count)
    ]
    options = {**OPTIONS, "data": str(data), "run": str(run), **changes}
    return forks.begin_all(
        [
            {**options, "environment": {"TF_CONFIG": text.replace("'", '"')}}
            if count > 1
            else options
            for text in cluster
        ]
    )


def train(forks, data, run, count, **changes):
    begin(forks, data, run, count, **changes)
    assert [forks.end() for _ in range(count)] == [0] * count, forks.said()


def values(run, step=None):
    with checkpoints.open(run if step is None else run / f"model.ckpt-{step}") as saved:
        return {name: np.array(saved[name]) for name in saved}


@pytest.fixture(scope="module")
def alone(forks, colours, tmp_path_factory):
    run = tmp_path_factory.mktemp("alone") / "run"
    train(forks, colours, run, 1)
    return values(run)


@pytest.mark.parametrize("count", [2, 3])
def test_they_end_with_the_variables_of_one_with_the_joined_batch(
    forks, colours, tmp_path, alone, count
):
    train(forks, colours, tmp_path / "run", count)
    together = values(tmp_path / "run")
    assert set(together) == set(alone)
    assert any(name.endswith("/Momentum") for name in alone)
    for name, value in alone.items():
        # Where a sum comes out near nothing its roundings are those of what was added.
        atol = 1e-6 * np.abs(value).max()
        np.testing.assert_allclose(together[name], value, rtol=1e-5, atol=atol, err_msg=name)
    run = Run(tmp_path / "run")
    assert [entry["step"] for entry in run.read_metrics() if entry["split"] == "val"] == [5, 10]
    assert run.report_file.is_file() and run.is_finished()


@pytest.mark.long
def test_batch_norms_that_train_keep_the_mean_of_all_averages(forks, colours, tmp_path):
    changes = {"batch_norm_decay": None, "steps": 2, "eval_every": 2}
    train(forks, colours, tmp_path / "one", 1, **changes)
    train(forks, colours, tmp_path / "two", 2, **changes)
    one, two = values(tmp_path / "one"), values(tmp_path / "two")
    name = "Tiny/Conv2d_1/BatchNorm/moving_mean"
    assert np.abs(one[name]).max() > 0
    # The mean of the means of equal parts is the mean of all, after the first step; after the
    # second the weights differ, as each part was normalised by itself.
    np.testing.assert_allclose(two[name], one[name], rtol=0.1, atol=1e-3)


def test_features_are_computed_by_all_and_the_head_is_the_same(forks, colours, tmp_path):
    changes = {"trainable": [], "init": "default", "augment": "none"}
    of_one = {"SLIMTUNE_CACHE": str(tmp_path / "a")}
    train(forks, colours, tmp_path / "one", 1, **changes, environment=of_one)
    hosts = free_addresses(2)
    options = {**OPTIONS, **changes, "data": str(colours), "run": str(tmp_path / "two")}
    # Stores of their own, so that each lacks everything; --hosts, so that each finds its place.
    forks.begin_all(
        [
            {
                **options,
                "hosts": hosts,
                "environment": {"SLIMTUNE_CACHE": str(tmp_path / f"b{index}")},
            }
            for index in range(2)
        ]
    )
    assert [forks.end() for _ in range(2)] == [0, 0], forks.said()
    one, two = values(tmp_path / "one"), values(tmp_path / "two")
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-5, atol=1e-8, err_msg=name)
    shards = [
        sorted(path.name for path in (tmp_path / f"b{index}").rglob("*.features.npy"))
        for index in range(2)
    ]
    # The chief, whichever came first, evaluates: it has those of the pictures held out besides.
    of_worker, of_chief = sorted(shards, key=len)
    assert of_worker and set(of_worker) < set(of_chief)


def wait_for(file, seconds=120):
    ends = time.monotonic() + seconds
    while not file.exists():
        assert time.monotonic() < ends, f"{file} did not come"
        time.sleep(0.02)


def test_a_lost_worker_ends_all_and_a_restart_resumes(forks, colours, tmp_path):
    changes = {"steps": 60, "eval_every": 20, "learning_rate": 0.005}
    train(forks, colours, tmp_path / "whole", 2, **changes)
    run = tmp_path / "run"
    _, worker = begin(forks, colours, run, 2, **changes)
    wait_for(run / "model.ckpt-20.index")
    os.kill(worker, signal.SIGKILL)
    assert [forks.end(), forks.end()] == [1, -signal.SIGKILL]
    said = forks.said()
    assert "Worker 1 (127.0.0.1:" in said and "was lost" in said
    assert "with --resume" in said and "Traceback" not in said
    step = Run(run).step()
    assert 20 <= step < 60
    train(forks, colours, run, 2, **changes, resume=True)
    one, other = values(tmp_path / "whole"), values(run)
    assert [name for name in one if one[name].tobytes() != other[name].tobytes()] == []


def test_a_lost_chief_ends_the_others(forks, colours, tmp_path):
    run = tmp_path / "run"
    chief, _ = begin(forks, colours, run, 2, steps=100000, eval_every=20)
    wait_for(run / "model.ckpt-20.index")
    os.kill(chief, signal.SIGKILL)
    assert [forks.end(), forks.end()] == [-signal.SIGKILL, 1]
    assert "The chief (127.0.0.1:" in forks.said()


def test_a_process_with_other_options_is_refused(forks, colours, tmp_path):
    hosts = free_addresses(2)
    options = {**OPTIONS, "data": str(colours), "run": str(tmp_path / "run"), "hosts": hosts}
    forks.begin_all([options, {**options, "learning_rate": 0.1}])
    assert [forks.end(), forks.end()] == [1, 1]
    assert "started with other options than its chief" in forks.said()


@pytest.mark.long
def test_other_pictures_are_refused(forks, colours, tmp_path):
    hosts = free_addresses(2)
    other = tmp_path / "data"
    shutil.copytree(colours, other)
    description = json.loads((other / "dataset.json").read_text())
    description["hash"] = f"sha256:{0:064x}"
    (other / "dataset.json").write_text(json.dumps(description))
    options = {**OPTIONS, "run": str(tmp_path / "run"), "hosts": hosts}
    forks.begin_all([{**options, "data": str(colours)}, {**options, "data": str(other)}])
    assert [forks.end(), forks.end()] == [1, 1]
    assert "holds other pictures here than on the chief's machine" in forks.said()


@pytest.mark.long
@pytest.mark.skipif(not has_bfloat16(), reason="this CPU does not compute in bfloat16")
def test_in_bfloat16_they_stay_together(forks, colours, tmp_path):
    changes = {"precision": "bf16", "eval_every": 10}
    train(forks, colours, tmp_path / "one", 1, **changes)
    train(forks, colours, tmp_path / "two", 2, **changes)
    one, two = values(tmp_path / "one"), values(tmp_path / "two")
    name = "Tiny/Logits/fc/weights"
    np.testing.assert_allclose(two[name], one[name], rtol=0.1, atol=0.02)


def test_a_batch_that_cannot_be_shared_out_is_refused(forks, colours, tmp_path):
    begin(forks, colours, tmp_path / "run", 2, batch_size=7)
    assert [forks.end(), forks.end()] == [1, 1]
    assert "cannot be shared out evenly to 2 processes" in forks.said()
    assert "Next: --batch-size 8" in forks.said()
