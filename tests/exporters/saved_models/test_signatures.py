"""Signatures of a SavedModel that becomes another SavedModel."""

from __future__ import annotations

import numpy as np
import pytest

import exporters
from exporters.graph import read_graph
from exporters.options import ModelOptions
from exporters.runtime import load_tensorflow

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def model(tmp_path):
    """serving_default gives probs; logits needs nothing else, features a placeholder of its own."""
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        other = v1.placeholder(tf.float32, [None, 4], "other")
        weights = v1.get_variable("w", [4, 3])
        logits = tf.matmul(x, weights, name="logits")
        build = v1.saved_model.build_signature_def
        infos = {
            name: {"value": v1.saved_model.build_tensor_info(tensor)}
            for name, tensor in {
                "x": x,
                "other": other,
                "probs": tf.nn.softmax(logits, name="probs"),
                "logits": logits,
                "features": tf.matmul(other, weights, name="features"),
            }.items()
        }
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(tmp_path / "source"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": build(infos["x"], infos["probs"], "predict"),
                "logits": build(infos["x"], infos["logits"], "regress"),
                "features": build(infos["other"], infos["features"], "predict"),
            },
        )
        builder.save()
    return tmp_path / "source"


@pytest.mark.parametrize("keeps", [False, True])
def test_signatures_whose_tensors_are_there_stay(model, tmp_path, keeps):
    options = ModelOptions(keep_variables=keeps)
    done = exporters.convert(model, f"{tmp_path}/copy/", options=options)
    signatures = read_graph(tmp_path / "copy").signatures
    assert sorted(signatures) == ["logits", "serving_default"]
    assert signatures["logits"].method_name == "regress"
    assert (
        "Signatures left out, since the outputs do without their tensors: features."
        " --outputs takes theirs." in done.notes
    )
    tf = load_tensorflow()
    rows = np.ones((2, 4), np.float32)
    answers = [
        tf.saved_model.load(str(path)).signatures["logits"](tf.constant(rows))["value"].numpy()
        for path in (model, tmp_path / "copy")
    ]
    np.testing.assert_allclose(*answers, rtol=1e-6)


def test_named_outputs_are_the_one_signature(model, tmp_path):
    done = exporters.convert(model, f"{tmp_path}/copy/", outputs=["features"])
    assert sorted(read_graph(tmp_path / "copy").signatures) == ["serving_default"]
    assert not [note for note in done.notes if "left out" in note]
