"""features --runner beam: the very file of the plain form."""

import json

import pytest

from checkpoints.errors import SlimtuneError
from finetune.feature_file import features

pytest.importorskip("apache_beam")
pytestmark = pytest.mark.tensorflow


def test_the_same_bytes(run, colours, colour_pictures, tmp_path, slimtune, in_memory):
    for name, data in (("dataset", colours), ("pictures", colour_pictures)):
        plain, beam = tmp_path / f"{name}.npz", tmp_path / f"{name} beam.npz"
        features(run, data, plain)
        code, printed, _ = slimtune(
            "features", run, data, beam, "--runner", "beam", "--beam-options", in_memory, "--json"
        )
        assert (code, json.loads(printed)["count"]) == (0, 60)
        assert beam.read_bytes() == plain.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "dataset beam.npz", "dataset.npz", "pictures beam.npz", "pictures.npz", "run",
    ]  # fmt: skip


def test_a_job_names_only_the_shards_that_it_reads(colours):
    from finetune.beam.features import _order
    from finetune.datasets.dataset import read_dataset

    split = read_dataset(colours).split("train")
    assert [shard.count for shard in split.shards] == [8, 9, 9, 9, 9]
    order = _order(split, 9, 26, colours / "x")
    assert [count for _, count, _ in order["shards"]] == [9, 9]
    assert (order["start"], order["end"]) == (1, 18)


def test_a_damaged_record_is_named_and_nothing_is_left(run, colours, tmp_path, in_memory):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(colours, broken)
    shard = broken / "pictures_val_00001-of-00005.tfrecord"
    data = bytearray(shard.read_bytes())
    data[-20] ^= 1
    shard.write_bytes(data)
    told = []
    for options in ({}, {"runner": "beam", "beam_options": in_memory}):
        with pytest.raises(SlimtuneError) as caught:
            features(run, broken, tmp_path / "out.npz", **options)
        told.append(str(caught.value))
    assert told[0] == told[1]
    assert "pictures_val_00001-of-00005.tfrecord: record" in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "run"]
