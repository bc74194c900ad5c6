"""The group `files`: its checks on given words, and all of it on a net of three variables."""

from __future__ import annotations

import json

import numpy as np
import pytest

import exporters
from checkpoints.errors import VerificationError
from scripts.bench.groups.files import Files, cases_on, same_sum, same_variables
from scripts.bench.groups.folding import same_probabilities
from scripts.bench.groups.read_values import word_sum
from scripts.bench.runner import run_case


def listing(*variables):
    return json.dumps(
        {
            "variables": [
                {"name": n, "dtype": d, "shape": s, "role": "model"} for n, d, s in variables
            ]
        }
    )


def test_equal_listings_pass_in_any_order():
    ours = listing(("b", "int64", []), ("a", "float32", [2, 3]))
    theirs = json.dumps({"a": ["float32", [2, 3]], "b": ["int64", []]})
    assert same_variables({"A": ours, "B": theirs}) == "names, dtypes, shapes of 2 variables"


def test_listings_that_differ_are_named():
    ours = listing(("a", "float32", [3, 2]), ("only/ours", "float32", [1]))
    theirs = json.dumps({"a": ["float32", [2, 3]], "only/theirs": ["int32", []]})
    with pytest.raises(VerificationError) as caught:
        same_variables({"A": ours, "B": theirs})
    assert str(caught.value).splitlines() == [
        "3 variables are listed differently:",
        "  a: ['float32', [3, 2]] and ['float32', [2, 3]]",
        "  only/ours: ['float32', [1]] and None",
        "  only/theirs: None and ['int32', []]",
    ]


def test_sums_that_differ_are_named():
    assert same_sum({"A": "12", "B": "12"}) == "sum of all values' words"
    with pytest.raises(VerificationError, match="Expected: sum of words 13\nReceived: 12"):
        same_sum({"A": "12", "B": "13"})


def test_the_sum_of_words_takes_every_byte():
    values = np.array([1, 2**63, 2**63 + 5], dtype=np.uint64)
    assert word_sum([values]) == 6
    odd = np.arange(1, 12, dtype=np.uint8)  # one word and the bytes 9, 10, 11
    word = int.from_bytes(bytes(range(1, 9)), "little")
    assert word_sum([odd]) == word + 30
    assert word_sum([values, odd, np.float32(0), np.empty((0, 3))]) == word + 36
    assert word_sum([np.float32(1)]) == sum(np.float32(1).tobytes())
    strided = np.arange(12, dtype=np.int64).reshape(3, 4).T
    assert word_sum([strided]) == 66


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory):
    """A 4x4 convolution, a bias and a head, with TensorFlow's Saver in both versions."""
    import tensorflow as tf

    v1 = tf.compat.v1
    directory = tmp_path_factory.mktemp("tiny files")
    with tf.Graph().as_default():
        pictures = v1.placeholder(tf.float32, [None, 8, 8, 3], name="input")
        v1.set_random_seed(1)
        with v1.variable_scope("tiny", use_resource=False):
            kernel = v1.get_variable("conv/weights", [4, 4, 3, 5])
            bias = v1.get_variable("conv/biases", [5])
            head = v1.get_variable("logits/weights", [5, 2])
        convolved = tf.nn.conv2d(pictures, kernel, 1, "SAME") + bias
        normalised, _, _ = v1.nn.fused_batch_norm(
            convolved,
            *(tf.constant([value] * 5) for value in (1.5, 0.25, 0.5, 4.0)),
            is_training=False,
        )
        features = tf.reduce_mean(tf.nn.relu(normalised), [1, 2])
        tf.nn.softmax(tf.matmul(features, head), name="probabilities")
        savers = {
            "v1": v1.train.Saver(write_version=v1.train.SaverDef.V1),
            "v2": v1.train.Saver(),
        }
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for version, saver in savers.items():
                (directory / version).mkdir()
                saver.save(session, str(directory / version / "model.ckpt"))
    frozen = directory / "frozen.pb"
    exporters.convert(directory / "v2" / "model.ckpt", frozen, outputs=["probabilities"])
    return Files(
        v1=directory / "v1" / "model.ckpt",
        v2=directory / "v2" / "model.ckpt",
        frozen=frozen,
        input="input:0",
        output="probabilities",
    )


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("name", "equal"),
    [
        pytest.param("list", "names, dtypes, shapes of 3 variables", marks=pytest.mark.long),
        pytest.param("read-v1", "sum of all values' words", marks=pytest.mark.long),
        ("freeze", "answers to the same pictures, bit for bit"),
        pytest.param("convert", "values of 3 variables", marks=pytest.mark.long),
        pytest.param("convert-v1", "values of 3 variables", marks=pytest.mark.long),
    ],
)
def test_slimtune_and_tensorflow_come_to_the_same_result(tiny_files, tmp_path, name, equal):
    (case,) = [case for case in cases_on(tiny_files, tmp_path) if case.name == name]
    result = run_case(case, tmp_path, repetitions=0)
    assert result.failures == []
    assert result.equal == equal


@pytest.mark.long
@pytest.mark.tensorflow
def test_folding_and_what_came_out_of_it(tiny_files, tmp_path):
    cases = {case.name: case for case in cases_on(tiny_files, tmp_path)}
    folded = run_case(cases["fold"], tmp_path, repetitions=0)
    assert folded.failures == []
    assert folded.equal == "answers to the same pictures, within 0.0001"
    run = run_case(cases["fold-run"], tmp_path, repetitions=0)
    assert run.failures == []
    assert run.equal == "largest probability of 4 pictures, within 0.0001"
    assert (
        exporters.inspect(tmp_path / "slimtune-folded.pb").as_json()["ops"].get("FusedBatchNormV3")
        is None
    )


def test_probabilities_that_differ_are_named():
    for theirs in ("[0.5, 0.26]", "[0.5, NaN]"):
        with pytest.raises(VerificationError, match="The two graphs answer differently"):
            same_probabilities({"A": "[0.5, 0.25]", "B": theirs})
