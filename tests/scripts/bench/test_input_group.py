"""The group `input`: the same pictures from both sides, on a few small ones."""

from __future__ import annotations

import importlib
import inspect
import json
import sys

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import VerificationError
from finetune.datasets.build import build
from scripts.bench.groups.input import cases_on, same_result
from scripts.bench.groups.input_files import write_pictures
from scripts.bench.peers import build_records, read_pictures

COUNT = 64


def test_results_that_differ_are_told():
    check = same_result("labels")
    assert check({"A": "[1, 2]", "B": "[1, 2]"}) == "labels"
    with pytest.raises(VerificationError, match=r"Expected: \[1, 3\]\nReceived: \[1, 2\]"):
        check({"A": "[1, 2]", "B": "[1, 3]"})


def test_the_plain_recipe_is_a_short_one():
    assert len(inspect.getsource(read_pictures).splitlines()) <= 60


def test_drawn_pictures_are_all_different_and_the_same_each_time(tmp_path):
    for name in ("first", "second"):
        write_pictures(tmp_path / name, 10, (50, 40))
    paths = sorted((tmp_path / "first").rglob("*.jpg"))
    assert len(paths) == 10
    assert len({path.read_bytes() for path in paths}) == 10
    for path in paths:
        with Image.open(path) as image:
            assert (image.format, image.size) == ("JPEG", (50, 40))
            assert np.asarray(image).std() > 5
        other = tmp_path / "second" / path.relative_to(tmp_path / "first")
        assert other.read_bytes() == path.read_bytes()


@pytest.mark.tensorflow
def test_all_cases_come_to_equal_results(tmp_path, monkeypatch):
    """The steps and programs of both sides, run here, as each would load TensorFlow anew."""
    write_pictures(tmp_path / "pictures", COUNT, (60, 45))
    build(tmp_path / "pictures", tmp_path / "dataset", val=0)
    train, evaluate, shards = cases_on(tmp_path, COUNT, 24)
    for case in (train, evaluate):
        printed = {}
        for contender in case.contenders:
            module, _, name = contender.work.function.partition(":")
            function = getattr(importlib.import_module(module), name)
            step = function(*contender.work.arguments)
            first = step()
            assert step() == first
            printed[contender.name] = json.dumps(first)
        assert f"of {COUNT}" in case.check(printed)
    build(tmp_path / "pictures", tmp_path / "slimtune-shards", val=0)
    *_, pictures, out = shards.peers[0].work.arguments
    monkeypatch.setattr(sys, "argv", ["build_records", pictures, out])
    build_records.main()
    assert shards.check({}) == f"bytes, labels and sizes of {COUNT} pictures"


def test_a_record_that_differs_is_found(tmp_path):
    from finetune.datasets.records import make_example, write_records

    def write(name, label):
        (tmp_path / name).mkdir()
        features = {"image/encoded": b"x", "image/class/label": label}
        features |= {"image/height": 1, "image/width": 1}
        write_records(tmp_path / name / "a.tfrecord", [make_example(features)])

    write("slimtune-shards", 0)
    write("slim-shards", 1)
    (case,) = (case for case in cases_on(tmp_path, 1, 8) if case.name == "build")
    with pytest.raises(VerificationError, match="Received: 1, of which 0 are there too"):
        case.check({name: json.dumps({}) for name in ("ours", "theirs")})
