"""Which net the names of modules and architectures mean."""

from __future__ import annotations

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import NotFoundError, UnsupportedError
from scripts.classic.retrain_trunk import Trunk, find_trunk

HUB = "https://tfhub.dev/google/imagenet"


@pytest.mark.parametrize(
    ("named", "net", "checkpoint"),
    [
        (f"{HUB}/inception_v3/feature_vector/1", "inception_v3", "inception_v3"),
        (f"{HUB}/resnet_v2_50/feature_vector/3", "resnet_v2_50", "resnet_v2_50"),
        (f"{HUB}/mobilenet_v1_100_224/feature_vector/1", "mobilenet_v1", "mobilenet_v1_1.0_224"),
        (
            f"{HUB}/mobilenet_v2_035_96/feature_vector/2",
            *("mobilenet_v2_035", "mobilenet_v2_0.35_96"),
        ),
        ("inception_v3", "inception_v3", "inception_v3"),
        ("mobilenet_1.0_224", "mobilenet_v1", "mobilenet_v1_1.0_224"),
        ("mobilenet_0.50_128", "mobilenet_v1_050", "mobilenet_v1_0.5_128"),
        ("sample", "inception_v3_sample", "sample"),
        ("mobilenet_v1_025", "mobilenet_v1_025", None),
    ],
)
def test_names_of_modules_and_architectures(named, net, checkpoint):
    assert find_trunk(named, "tfhub_module") == Trunk(net, checkpoint)


@pytest.mark.parametrize(
    "named",
    [f"{HUB}/mobilenet_v1_100_224/quantops/feature_vector/1", "mobilenet_1.0_224_quantized"],
)
def test_simulated_quantization_is_refused_with_the_new_way(named):
    with pytest.raises(UnsupportedError) as caught:
        find_trunk(named, "architecture")
    assert "--quantize int8" in (caught.value.next_step or "")


def test_a_net_that_is_not_there_gets_near_names():
    with pytest.raises(NotFoundError) as caught:
        find_trunk("inception_v33", "architecture")
    assert "near: inception_v3" in (caught.value.expected or "")


def test_a_file_with_a_graph_is_a_net_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pb").write_bytes(b"")
    assert find_trunk("net.pb", "tfhub_module") == Trunk("net.pb", None)


def test_a_module_on_disk_is_refused(tmp_path):
    (tmp_path / "tfhub_module.pb").write_bytes(b"\x08\x03")
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(UnsupportedError) as caught:
        find_trunk(str(tmp_path), "tfhub_module")
    assert "only its own library loads" in caught.value.message


def test_a_checkpoint_is_of_the_net_whose_variables_it_holds(tmp_path):
    path = checkpoints.write(
        tmp_path / "m.ckpt", {"vgg_16/fc8/biases": np.zeros(3, np.float32)}
    ).prefix
    assert find_trunk(str(path), "tfhub_module") == Trunk("vgg_16", str(path))
    other = checkpoints.write(tmp_path / "o.ckpt", {"w": np.zeros(3, np.float32)}).prefix
    with pytest.raises(NotFoundError) as caught:
        find_trunk(str(other), "tfhub_module")
    assert "of no net that slimtune knows" in caught.value.message


@pytest.mark.long
@pytest.mark.tensorflow
def test_of_one_architecture_the_width_counts():
    from checkpoints.published import CHECKPOINTS
    from finetune.weights import find_weights

    path = find_weights("inception_v3_sample", CHECKPOINTS["sample"].name).path
    assert find_trunk(str(path), "tfhub_module").net == "inception_v3_sample"
