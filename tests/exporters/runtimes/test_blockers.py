"""What is said before a converter runs; neither TensorFlow nor a converter is loaded."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import exporters
from checkpoints.errors import UnsupportedError, UsageError
from exporters.freezing import prepare
from exporters.options import ModelOptions
from exporters.runtimes import extras
from exporters.runtimes.blockers import MOST_ONNX_NODES, ONNX_OPS, refuse_blockers

FLOAT = np.dtype("float32")
FORMS = ["tflite", "onnx"]


def blockers(builder, form, output="out", asked_for=()):
    frozen = prepare(builder.graph, builder.values, outputs=[output])
    with pytest.raises(UnsupportedError, match=f"cannot become a {form} model") as caught:
        refuse_blockers(frozen, form, asked_for)
    return str(caught.value)


@pytest.mark.parametrize("form", FORMS)
def test_switch_and_merge(builder, form):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.const("p", np.array(True))
    builder.add("Switch", "switch", "x", "p", T=FLOAT)
    builder.add("Neg", "neg", "switch:1", T=FLOAT)
    builder.add("Merge", "out", "switch", "neg", T=FLOAT)
    message = blockers(builder, form)
    assert "Switch (switch): a branch or loop of TensorFlow 1 that was not folded" in message
    assert "Merge (out): a branch or loop" in message
    assert "for 2 reasons" in message
    assert "--set NAME=VALUE" in message


@pytest.mark.parametrize("form", FORMS)
def test_unknown_shapes(builder, form):
    builder.add("Placeholder", "x", dtype=FLOAT)
    builder.add("Neg", "out", "x", T=FLOAT)
    assert "x:0: an input of unknown shape" in blockers(builder, form)


@pytest.mark.parametrize("form", FORMS)
def test_open_dimensions_beside_the_batch(builder, form):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, None, None, 3))
    builder.add("Neg", "out", "x", T=FLOAT)
    assert "an input of the shape [?, ?, ?, 3], of which only the first" in blockers(builder, form)


@pytest.mark.parametrize("form", FORMS)
def test_two_placeholders(builder, form):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("Placeholder", "other", dtype=FLOAT, shape=(None, 4))
    builder.add("Mul", "out", "x", "other", T=FLOAT)
    frozen = prepare(builder.graph, {}, outputs=["out"])
    assert frozen.inputs[0].node == "x"
    assert "other:0: a further input beside x:0" in blockers(builder, form)
    refuse_blockers(frozen, form, ["x", "other"])


@pytest.mark.parametrize("form", FORMS)
def test_ops_beyond_numbers_are_named_with_their_nodes(builder, form):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    for place in range(5):
        builder.add("DecodeRaw", f"raw{place}", "x")
    builder.add("AddN", "out", *(f"raw{place}" for place in range(5)), T=FLOAT)
    message = blockers(builder, form)
    assert "DecodeRaw (raw0, raw1, raw2 and 2 more): does more than compute on numbers" in message


def test_ops_without_a_translation(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("Betainc", "out", "x", "x", "x", T=FLOAT)
    assert "Betainc (out): tf2onnx has no translation for it" in blockers(builder, "onnx")


@pytest.mark.parametrize("form", FORMS)
def test_a_plain_net_is_let_through(dense_net, form):
    refuse_blockers(prepare(dense_net.graph, dense_net.values, outputs=["probs"]), form, ())


@pytest.mark.parametrize(
    ("name", "package"), [("m.onnx", "tf2onnx"), ("m.tflite", "ai_edge_litert")]
)
def test_an_extra_that_is_not_installed(dense_net, tmp_path, monkeypatch, name, package):
    """Blockers come first; then the extra is named, before anything is converted."""
    import checkpoints

    found = importlib.util.find_spec
    monkeypatch.setattr(
        extras.importlib.util, "find_spec", lambda name: None if name == package else found(name)
    )
    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    options = {"graph": dense_net.graph_def, "outputs": ["probs"]}
    with pytest.raises(UnsupportedError, match=f"needs {package}") as caught:
        exporters.convert(tmp_path / "m.ckpt", tmp_path / name, **options)
    extra = "onnx" if package == "tf2onnx" else "litert"
    assert caught.value.next_step == f"pip install 'slimtune[{extra}]'"
    dense_net.graph_def.node[0].attr["shape"].shape.unknown_rank = True
    del dense_net.graph_def.node[0].attr["shape"].shape.dim[:]
    with pytest.raises(UnsupportedError, match="an input of unknown shape"):
        exporters.convert(tmp_path / "m.ckpt", tmp_path / name, **options)


def test_blockers_load_nothing_heavy(dense_net, tmp_path):
    import checkpoints

    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    dense_net.add("Switch", "switch", "probs", "probs", T=FLOAT)
    (tmp_path / "g.pb").write_bytes(dense_net.graph_def.SerializeToString())
    code = (
        "import sys, exporters\n"
        "from checkpoints.errors import UnsupportedError\n"
        "for name in ('m.onnx', 'm.tflite'):\n"
        "    try:\n"
        f"        exporters.convert({str(tmp_path / 'm.ckpt')!r}, {str(tmp_path)!r} + '/' + name,"
        f" graph={str(tmp_path / 'g.pb')!r}, outputs=['switch'])\n"
        "    except UnsupportedError as error:\n"
        "        assert 'Switch (switch)' in str(error)\n"
        "    else:\n"
        "        sys.exit('not refused')\n"
        "loaded = {'tensorflow', 'tf2onnx', 'onnx', 'onnxruntime', 'ai_edge_litert'} & set(sys.modules)\n"
        "sys.exit(repr(loaded) if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.tensorflow
def test_every_op_that_is_let_through_is_one_that_tf2onnx_knows():
    from exporters.runtime import load_tensorflow
    from exporters.runtimes.extras import load_extra

    load_tensorflow()
    load_extra("tf2onnx.tfonnx")
    load_extra("tf2onnx.onnx_opset")
    handler = load_extra("tf2onnx.handler")
    known = {
        op for versions in handler.tf_op.get_opsets().values() for table in versions for op in table
    }
    # Rank becomes a constant, and While and If are written out, before handlers are asked.
    assert ONNX_OPS - known <= {"Rank"}


class TestOptions:
    @pytest.mark.parametrize(
        ("form", "options", "named"),
        [
            ("pb", {"quantize": "dynamic"}, "--quantize"),
            ("tflite", {"layout": "nchw"}, "--layout"),
            ("onnx", {"compat": True}, "--compat"),
            ("npz", {"optimize": True}, "--optimize"),
            ("tflite", {"with_preprocessing": len}, "--with-preprocessing"),
        ],
    )
    def test_an_option_of_other_forms_is_wrong_usage(self, form, options, named):
        with pytest.raises(UsageError, match=f"{named} says nothing of the form {form}"):
            ModelOptions(**options).refuse_for(form)

    @pytest.mark.parametrize(
        "options", [{"quantize": "int8"}, {"quantize": "dynamic", "calibration": len}]
    )
    def test_int8_and_calibration_go_together(self, options):
        with pytest.raises(UsageError, match="go together"):
            ModelOptions(**options).refuse_for("tflite")

    def test_options_that_fit(self):
        ModelOptions(optimize=True, quantize="int8", calibration=len).refuse_for("tflite")
        ModelOptions(optimize=True, layout="nchw").refuse_for("onnx")
        ModelOptions(optimize=True, compat=True, with_preprocessing=len).refuse_for("pb")
        ModelOptions().refuse_for("v2")


def test_a_graph_that_tf2onnx_would_need_hours_for(builder):
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    last = "x"
    for index in range(MOST_ONNX_NODES):
        last = builder.add("Relu", f"relu_{index}", last, T=FLOAT)
    message = blockers(builder, "onnx", last)
    assert "30001 nodes: tf2onnx needs time with the square of their number" in message
    refuse_blockers(prepare(builder.graph, {}, outputs=[last]), "tflite", ())
