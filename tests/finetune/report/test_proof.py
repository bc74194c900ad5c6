import json

import numpy as np

import checkpoints
from checkpoints.progress import SILENT
from finetune.report.facts import read_facts
from finetune.report.proof import FrozenProof, prove_frozen
from finetune.run import Run


def prove(path):
    run = Run(path)
    return prove_frozen(run, read_facts(run).plan, SILENT)


def test_unchanged_variables_are_proved_equal(make_run):
    proof = prove(make_run().path)
    assert proof == FrozenProof(2, 2, (), "model.ckpt-20")
    assert proof.passed


def test_one_changed_bit_is_found(make_run):
    made = make_run()
    name = "Net/Conv2d_1/BatchNorm/moving_mean"
    mean = made.variables[name].copy()
    mean.view(np.uint32)[2] ^= 1
    checkpoints.write(made.path / "model.ckpt-20", {**made.variables, name: mean}, overwrite=True)
    proof = prove(made.path)
    assert (proof.passed, proof.equal, proof.changed) == (False, 1, (name,))


def test_a_frozen_variable_that_is_gone_has_changed(make_run):
    made = make_run()
    del made.variables["Net/Conv2d_1/weights"]
    checkpoints.write(made.path / "model.ckpt-20", made.variables, overwrite=True)
    assert prove(made.path).changed == ("Net/Conv2d_1/weights",)


def test_without_a_checkpoint_nothing_is_claimed(make_run):
    made = make_run()
    for file in [*made.path.glob("model.ckpt-20*"), made.path / "checkpoint"]:
        file.unlink()
    proof = prove(made.path)
    assert (proof.passed, proof.reason) == (False, "the run has no checkpoint yet")


def test_without_checksums_nothing_is_claimed(make_run):
    made = make_run()
    plan = json.loads((made.path / "plan.json").read_text())
    del plan["variables"][0]["sha256"]
    (made.path / "plan.json").write_text(json.dumps(plan))
    proof = prove(made.path)
    assert (proof.passed, proof.reason) == (False, "plan.json has no checksums of them")


def test_a_cut_checkpoint_is_named_and_proves_nothing(make_run):
    made = make_run()
    (data,) = made.path.glob("model.ckpt-20.data-*")
    data.write_bytes(data.read_bytes()[:8])
    proof = prove(made.path)
    assert (proof.passed, proof.equal) == (False, 0)
    assert "model.ckpt-20" in proof.reason
