"""The group `serving`: both sides answer the same pictures, and rates are told."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from checkpoints.errors import VerificationError
from exporters.runtime import load_tensorflow
from scripts.bench.case import Case, Command, Contender, Peer
from scripts.bench.groups import serving
from scripts.bench.groups.serve_pictures import PICTURES, pictures_of
from scripts.bench.groups.serving import cases_on, same_probabilities
from scripts.bench.process import Run
from scripts.bench.result import CaseResult, ContenderResult
from scripts.bench.table import remarks


def test_targets_and_what_the_short_form_holds():
    cases = cases_on(Path("models"), "input", "softmax", 299)
    assert {case.name: case.peers[0].target for case in cases} == {
        "pb": 1,
        "tflite": 1,
        "onnx": 0.952,
        "pb-one": 1,
        "tflite-one": 1,
        "onnx-one": 0.952,
    }
    assert [case.name for case in cases if case.in_quick] == ["pb"]
    assert {case.items for case in cases} == {(PICTURES, "pictures")}
    tflite = cases[4]
    assert tflite.ours.work.arguments == (
        *("models/ours.tflite", "input:0", "softmax:0", "299", "1"),
    )
    assert tflite.peers[0].work.arguments[0] == "models/peer.tflite"


def test_a_form_without_its_runtime_is_left_out(monkeypatch):
    monkeypatch.setattr(serving.importlib.util, "find_spec", lambda name: None)
    skipped = {case.name: case.skipped for case in cases_on(Path("models"), "a", "b", 8)}
    assert skipped["pb"] is None
    assert skipped["tflite"] == "ai_edge_litert not installed"
    assert skipped["onnx-one"] == "onnxruntime and tf2onnx not installed"


def said(*rows):
    return json.dumps(rows)


def test_answers_that_differ_fail():
    ours = said([0.7, 0.3], [0.2, 0.8])
    assert same_probabilities({"a": ours, "b": ours}) == (
        "first class of 2 pictures, probabilities within 0.001 of the largest"
    )
    for other, received in (
        (said([0.3, 0.7], [0.2, 0.8]), "1 the same, a difference of 0.57"),
        (said([0.7, 0.302], [0.2, 0.8]), "2 the same, a difference of 0.0029"),
        (said([0.7, float("nan")], [0.2, 0.8]), "a difference of nan"),
        (said([0.7, 0.3]), r"Received: \[2, 2\]"),
    ):
        with pytest.raises(VerificationError, match=received):
            same_probabilities({"a": ours, "b": other})


def test_pictures_a_second_are_told():
    ours, peer = Contender("slimtune", Command(("a",))), Peer("plain", Command(("b",)))
    case = CaseResult(
        "serving",
        Case("pb", "pictures", ours, (peer,), items=(16, "pictures")),
        [
            ContenderResult(ours, [Run(0.5, 0.5, 10)]),
            ContenderResult(peer, [Run(2.0, 0.5, 10)]),
        ],
    )
    assert remarks(case) == ["slimtune 32.0 pictures/s, plain 8.00 pictures/s"]
    value = case.as_json()
    assert value["items"] == {"count": 16, "name": "pictures"}
    assert [one["items_per_second"] for one in value["contenders"]] == [32, 8]


@pytest.mark.tensorflow
def test_a_graph_and_a_session_answer_alike(tmp_path):
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default() as graph:
        pictures = v1.placeholder(v1.float32, [None, 8, 8, 3], name="input")
        weights = np.random.default_rng(0).normal(size=(192, 5)).astype(np.float32)
        v1.nn.softmax(v1.reshape(pictures, [-1, 192]) @ weights, name="softmax")
    for name in ("ours.pb", "peer.pb"):
        (tmp_path / name).write_bytes(graph.as_graph_def().SerializeToString())
    case = cases_on(tmp_path, "input", "softmax", 8)[0]
    printed = {}
    for contender in case.contenders:
        module, _, name = contender.work.function.partition(":")
        step = getattr(importlib.import_module(module), name)(*contender.work.arguments)
        printed[contender.name] = json.dumps(step())
    assert case.check(printed).startswith(f"first class of {PICTURES} pictures")
    assert pictures_of(8).tobytes() == pictures_of(8).tobytes()
