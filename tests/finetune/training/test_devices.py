import os

import pytest

from checkpoints.errors import RunError, UsageError
from finetune import TrainConfig
from finetune.training import devices
from finetune.training.devices import VARIABLE, use_device


@pytest.fixture
def gpus(monkeypatch):
    """Sets what is visible and whether TensorFlow then finds a GPU."""

    def set_(visible, found):
        monkeypatch.setattr(devices, "has_gpu", lambda: found)
        if visible is None:
            monkeypatch.delenv(VARIABLE, raising=False)
        else:
            monkeypatch.setenv(VARIABLE, visible)

    return set_


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("gpu", None, "0"),
        ("gpu:3", None, "3"),
        ("gpu:1", "4,6", "6"),
        ("gpu", "GPU-5f2a,GPU-77", "GPU-5f2a"),
    ],
)
def test_one_gpu_of_those_that_are_visible(gpus, name, before, after):
    gpus(before, True)
    use_device(name)
    assert os.environ[VARIABLE] == after


def test_the_cpu_alone(gpus):
    gpus("0", False)
    use_device("cpu")
    assert os.environ[VARIABLE] == "-1"


def test_a_gpu_that_was_taken_before_is_told(gpus):
    gpus(None, True)
    with pytest.raises(RunError, match="has taken a GPU in this process already"):
        use_device("cpu")


@pytest.mark.parametrize(
    ("name", "visible", "found", "received"),
    [
        ("gpu", None, False, "none"),
        ("gpu:2", "4,6", True, f"{VARIABLE}=4,6"),
        ("gpu", "", True, f"{VARIABLE}="),
    ],
)
def test_a_gpu_that_is_not_there(gpus, name, visible, found, received):
    gpus(visible, found)
    with pytest.raises(RunError, match=f"There is no device {name} ") as caught:
        use_device(name)
    assert caught.value.received == received


@pytest.mark.parametrize("name", ["tpu", "gpu:", "gpu:-1", "GPU", "gpu:0,1", "cpu:1"])
def test_what_is_no_device_is_refused_with_the_other_options(name):
    with pytest.raises(UsageError, match="--device: expected cpu, gpu or gpu:N"):
        TrainConfig(data="d", run="r", device=name)
    with pytest.raises(UsageError, match="There is no device"):
        use_device(name)
