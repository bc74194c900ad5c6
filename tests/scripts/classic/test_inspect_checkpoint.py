"""inspect_checkpoint: line for line what TensorFlow's own tool prints."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import checkpoints

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", params=["v2", "v1"])
def prefix(request, tf, tmp_path_factory):
    """A checkpoint of several dtypes, written by TensorFlow, a variable in slices among them."""
    v1 = tf.compat.v1
    path = tmp_path_factory.mktemp("checkpoint") / "model.ckpt"
    values = {
        "net/weights": np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 4, 5),
        "net/biases": np.arange(4, dtype=np.float64),
        "net/half": np.array([1.5, -2], ml_dtypes.bfloat16),
        "names": np.array([b"a", b"bc"], object),
        "word": np.array(b"w", object),
        "flag": np.array(True),
        "empty": np.zeros((0, 3), np.int32),
        "global_step": np.array(7, np.int64),
        "net/weights/Adam": np.zeros((3, 4, 5), np.float32),
    }
    if request.param == "v1":
        # TensorFlow's V1 writer has no place for these.
        values = {
            name: v for name, v in values.items() if v.dtype not in (object, ml_dtypes.bfloat16)
        }
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=value, use_resource=False)
        if request.param == "v2":
            # TensorFlow's reader of V1 does not put slices together; ours does.
            v1.get_variable(
                "parts",
                initializer=tf.constant(np.arange(12, dtype=np.float32).reshape(6, 2)),
                partitioner=v1.fixed_size_partitioner(3),
                use_resource=False,
            )
        session.run(v1.global_variables_initializer())
        version = 1 if request.param == "v1" else 2
        v1.train.Saver(write_version=version).save(session, str(path), write_meta_graph=False)
    return path


def old_tool(capsys, path, tensor="", all_tensors=False, all_names=False, pattern=""):
    from tensorflow.python.tools import inspect_checkpoint

    inspect_checkpoint.print_tensors_in_checkpoint_file(
        str(path), tensor, all_tensors, all_names, count_exclude_pattern=pattern
    )
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "theirs"),
    [
        (["--all_tensor_names"], {"all_names": True}),
        (["--all_tensors"], {"all_tensors": True}),
        (["--all_tensors=true", "--noall_tensor_names"], {"all_tensors": True}),
        (["--tensor_name=net/weights"], {"tensor": "net/weights"}),
        (["--tensor_name", "global_step"], {"tensor": "global_step"}),
        (["--tensor_name=net/biases"], {"tensor": "net/biases"}),
        (
            ["--all_tensor_names", "--count_exclude_pattern=Adam|global_step"],
            {"all_names": True, "pattern": "Adam|global_step"},
        ),
    ],
)
def test_it_prints_what_tensorflows_tool_prints(slimtune, capsys, prefix, flags, theirs):
    expected = old_tool(capsys, prefix, **theirs)
    code, out, err = slimtune("classic", "inspect_checkpoint", f"--file_name={prefix}", *flags)
    assert code == 0, err
    assert out == expected
    assert f"The same with slimtune:\n  slimtune inspect {prefix}" in err


def test_without_a_wish_it_lists_what_tensorflows_tool_lists(slimtune, capsys, prefix):
    # TensorFlow lists a V1 checkpoint in the order of a hash table, and of V2 in the place of a
    # variable its slices, each by a key that begins with a zero byte.
    lines = old_tool(capsys, prefix).splitlines()
    expected = [line for line in lines if not line.startswith("\0")]
    if len(expected) < len(lines):
        expected.append("parts (DT_FLOAT) [6,2]")
    code, out, err = slimtune("classic", "inspect_checkpoint", f"--file_name={prefix}")
    assert code == 0, err
    assert sorted(out.splitlines()) == sorted(expected)


def test_print_options_are_numpys(slimtune, prefix):
    before = np.get_printoptions()
    code, out, _ = slimtune(
        *("classic", "inspect_checkpoint", f"--file_name={prefix}", "--tensor_name=net/weights"),
        *("--printoptions", "threshold=10", "edgeitems=1", "precision=2"),
    )
    with np.printoptions(threshold=10, edgeitems=1, precision=2):
        values = str(np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 4, 5))
    assert code == 0
    assert values in out and "..." in values
    assert np.get_printoptions() == before


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--tensor_name=net/weigths"], 1, "Next: --tensor_name=net/weights\n"),
        (["--printoptions", "width=3"], 2, "width=3 is no print option of numpy."),
        (["--printoptions=threshold=many"], 2, "threshold cannot be many."),
        (["--count_exclude_pattern=("], 2, "--count_exclude_pattern is no regular expression."),
    ],
)
def test_what_cannot_be_is_refused(slimtune, prefix, flags, code, said):
    found, out, err = slimtune("classic", "inspect_checkpoint", f"--file_name={prefix}", *flags)
    assert (found, out) == (code, "")
    assert said in err and "\nReceived: " in err and "\nNext: " in err


def test_an_object_based_checkpoint_goes_by_its_keys(tf, slimtune, capsys, tmp_path):
    prefix = tf.train.Checkpoint(w=tf.Variable([1.0, 2.0])).write(str(tmp_path / "model"))
    lines = old_tool(capsys, prefix, all_tensors=True).splitlines()
    code, out, err = slimtune(
        "classic", "inspect_checkpoint", f"--file_name={prefix}", "--all_tensors"
    )
    assert code == 0, err
    assert "tensor: w/.ATTRIBUTES/VARIABLE_VALUE (float32) [2]\n[1. 2.]\n" in out
    assert set(out.splitlines()[:-1]) <= set(lines)


def test_json_has_the_tensors(slimtune, tmp_path):
    path = checkpoints.write(tmp_path / "m.ckpt", {"a": np.ones((2, 3), np.float32)}).prefix
    code, out, _ = slimtune("classic", "inspect_checkpoint", f"--file_name={path}.index", "--json")
    assert code == 0
    assert json.loads(out) == {
        "path": str(path),
        "tensors": [{"name": "a", "dtype": "float32", "shape": [2, 3]}],
        "parameters": 6,
        "same": [f"slimtune inspect {path}.index"],
    }


def test_json_has_the_values_that_were_asked_for(slimtune, prefix):
    code, out, _ = slimtune(
        *("classic", "inspect_checkpoint", f"--file_name={prefix}", "--all_tensors"),
        *("--tensor_name=word", "--json"),
    )
    assert code == 0
    value = json.loads(out)
    found = {entry["name"]: entry["values"] for entry in value["tensors"]}
    assert found["net/biases"] == [0, 1, 2, 3] and found["empty"] == []
    assert (found["flag"], found["global_step"]) == (True, 7)
    if "names" in found:
        assert (found["names"], found["word"]) == (["a", "bc"], "w")
        assert found["net/half"] == [1.5, -2]
    assert value["same"] == [f"slimtune inspect {prefix} --stats"]
