"""The group `training`: both sides train on the same number of pictures."""

from pathlib import Path

import pytest

from checkpoints.errors import VerificationError
from scripts.bench.case import Step
from scripts.bench.groups import training
from scripts.bench.groups.training import head_case


@pytest.fixture
def case():
    return head_case(Path("data"), Path("model.ckpt"))


def test_the_peer_runs_a_part_of_the_same_steps(case):
    (peer,) = case.peers
    assert isinstance(peer.work, Step)
    steps = int(peer.work.arguments[-1])
    assert steps * peer.times == 640 == training.EPOCHS * 32
    assert peer.target == 20


def test_other_numbers_of_pictures_fail(case):
    assert case.check({"a": "20480", "b": "256"}) == "20480 pictures trained on"
    with pytest.raises(VerificationError, match="did not train on as many pictures"):
        case.check({"a": "20480", "b": "255"})
