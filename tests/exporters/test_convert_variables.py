"""Variables converted between all forms, and what is chosen of them on the way."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints import Selection, Slicing
from checkpoints.errors import NotFoundError, UnsupportedError, UsageError, VerificationError
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.metadata import Metadata, metadata_node, read_metadata

AVERAGE = "ExponentialMovingAverage"
FORMS = {"v1": "m", "v2": "m.ckpt", "npz": "m.npz", "safetensors": "m.safetensors"}
REAL = [
    "regression_v1_v2/regression_v1.ckpt",
    "regression_v1_v2/regression_v2.ckpt",
    "lenet_300_100_v1",
    "half_plus_two_v1_sharded/export",
    "mnist_mlp/model.ckpt-1999",
    "half_plus_two_saved_model/variables/variables",
]
# Of every kind: a step of 64 bits, a scalar, a bool, strings, nothing at all, bfloat16.
KINDS = {
    "step": np.array(7, np.int64),
    "scalar": np.array(0.5, np.float32),
    "flag": np.array([True, False]),
    "words": np.array([b"a", b"", b"\0b" * 300], object),
    "empty": np.zeros((3, 0), np.float32),
    "bfloat16": np.array([1.5, -2]).astype(ml_dtypes.bfloat16),
    "integers": np.array([[-1, 2**31 - 1]], np.int32),
}


def convert(source, destination, form, **options):
    return exporters.convert(source, destination, to=form, **options)


def all_same(first, second, same):
    with checkpoints.open(first) as ours, checkpoints.open(second) as theirs:
        assert sorted(ours) == sorted(theirs)
        return all(same(ours[name], theirs[name]) for name in ours)


@pytest.fixture(scope="module")
def same():
    def compare(first, second):
        if first.dtype == object:
            return first.shape == second.shape and first.tolist() == second.tolist()
        kind = (first.dtype, first.shape) == (second.dtype, second.shape)
        return kind and first.tobytes() == second.tobytes()

    return compare


@pytest.mark.parametrize("through", FORMS)
@pytest.mark.parametrize("path", REAL)
def test_real_files_there_and_back(shared, tmp_path, path, through, same):
    source = shared / "data" / "models" / path
    kind = checkpoints.resolve(source).kind
    there = convert(source, tmp_path / "there" / FORMS[through], through)
    assert there.verification.mode == "structure" and there.verification.passed
    back = convert(there.path, tmp_path / "back" / "m.ckpt", kind.removeprefix("checkpoint-"))
    assert all_same(source, there.path, same) and all_same(source, back.path, same)


@pytest.mark.parametrize(
    "path", ["mnist_mlp/model.ckpt-1999", "regression_v1_v2/regression_v2.ckpt"]
)
def test_v2_becomes_the_same_bytes_again(shared, tmp_path, path):
    source = shared / "data" / "models" / path
    convert(source, tmp_path / "v1", "v1")
    convert(tmp_path / "v1", tmp_path / "m.ckpt", "v2")
    for ending in (".index", ".data-00000-of-00001"):
        theirs = source.with_name(source.name + ending).read_bytes()
        assert (tmp_path / f"m.ckpt{ending}").read_bytes() == theirs


@pytest.mark.parametrize("form", ["v1", "v2", "npz"])
@pytest.mark.parametrize("source", ["v1", "v2"])
def test_every_kind_of_variable_bit_for_bit(tmp_path, source, form, same):
    checkpoints.write(tmp_path / "a" / FORMS[source], KINDS, version=source)
    there = convert(tmp_path / "a" / FORMS[source], tmp_path / "b" / FORMS[form], form)
    back = convert(there.path, tmp_path / "c" / FORMS[source], source)
    with checkpoints.open(back.path) as saved:
        assert all(same(saved[name], value) for name, value in KINDS.items())
    for file in checkpoints.resolve(back.path).files:
        assert file.read_bytes() == (tmp_path / "a" / file.name).read_bytes()


def test_strings_do_not_fit_safetensors(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", KINDS)
    with pytest.raises(UnsupportedError, match="1 variable cannot be kept") as caught:
        exporters.convert(tmp_path / "m.ckpt", tmp_path / "m.safetensors")
    assert "words: string" in caught.value.message
    assert not (tmp_path / "m.safetensors").exists()
    done = exporters.convert(
        tmp_path / "m.ckpt", tmp_path / "m.safetensors", selection=Selection(exclude=("words",))
    )
    assert done.notes == ("Taken: 6 of 7 variables.",)


@pytest.fixture
def averaged(tmp_path):
    """A weight of 1 with an average of 0.9, a slot and the step."""
    values = {
        "w": np.array([1.0], np.float32),
        f"w/{AVERAGE}": np.array([0.9], np.float32),
        "w/Adam": np.array([5.0], np.float32),
        "global_step": np.array(7, np.int64),
    }
    return checkpoints.write(tmp_path / "m.ckpt-7", values).prefix


@pytest.mark.parametrize(("weights", "value"), [("auto", 1.0), ("raw", 1.0), ("ema", 0.9)])
def test_weights(averaged, tmp_path, weights, value):
    selection = Selection(weights=weights)
    done = exporters.convert(averaged, tmp_path / "out.npz", selection=selection)
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["w"] == np.float32(value)
        assert (f"w/{AVERAGE}" in arrays) == (weights != "ema")
    said = [note for note in done.notes if note.startswith("Weights: ")]
    assert [note[:12] for note in said] == {
        "auto": ["Weights: raw"],
        "raw": [],
        "ema": ["Weights: ema"],
    }[weights]


@pytest.mark.parametrize(("weights", "value"), [("auto", 1.0), ("raw", 1.0), ("ema", 0.9)])
def test_weights_of_a_frozen_graph(builder, tmp_path, weights, value):
    builder.add("Placeholder", "x", dtype=np.dtype("float32"), shape=(None, 1))
    read = builder.variable("w", np.array([[1.0]], np.float32))
    builder.add("MatMul", "y", "x", read, T=np.dtype("float32"))
    values = {"w": builder.values["w"], f"w/{AVERAGE}": np.array([[0.9]], np.float32)}
    checkpoints.write(tmp_path / "m.ckpt", values)
    done = exporters.convert(
        tmp_path / "m.ckpt",
        tmp_path / "m.pb",
        graph=builder.graph_def,
        selection=Selection(weights=weights),
    )
    assert done.verification.passed
    assert constant_value(read_graph(tmp_path / "m.pb").nodes["w"]) == np.float32(value)
    assert any("Weights: " in note for note in done.notes) == (weights != "raw")


def test_selected_renamed_and_cast(averaged, tmp_path, heard):
    selection = Selection(
        "raw", drop=("slots", "step"), exclude=(AVERAGE,), rename=("s|^|net/|",), dtype="float16"
    )
    done = exporters.convert(
        averaged, tmp_path / "out.safetensors", selection=selection, progress=heard
    )
    with checkpoints.open(tmp_path / "out.safetensors") as saved:
        assert {name: value.tolist() for name, value in saved.items()} == {"net/w": [1.0]}
        assert saved["net/w"].dtype == np.float16
    assert done.parameters == 1 and done.verification.passed
    assert (
        list(done.notes)
        == heard.said
        == [
            "Dropped: 1 variable (slots).",
            "Dropped: 1 variable (step).",
            "Taken: 1 of 2 variables.",
            "Renamed: 1 of 1 variable.",
            "Cast to float16: 1 float variable, batch-norm averages too;"
            " 0 of other dtypes stay as they are.",
        ]
    )


def test_what_becomes_infinite_is_said(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", {"w": np.array([1e30, 1.0, -1e30], np.float32)})
    done = exporters.convert(
        tmp_path / "m.ckpt", tmp_path / "out.ckpt", selection=Selection(dtype="float16")
    )
    assert done.notes[-1] == "w: 2 values too large for float16 became infinite."


def test_variables_in_slices(averaged, tmp_path):
    checkpoints.write(tmp_path / "large.ckpt", {"w": np.arange(10.0)})
    for form in ("v1", "v2"):
        done = convert(tmp_path / "large.ckpt", tmp_path / form, form, slicing=Slicing(3, 1))
        assert done.verification.passed
        assert checkpoints.diff(tmp_path / "large.ckpt", tmp_path / form).is_equal
    assert (tmp_path / "v2.index").stat().st_size > (tmp_path / "large.ckpt.index").stat().st_size
    whole = exporters.convert(tmp_path / "v2", tmp_path / "whole.ckpt")
    for file in checkpoints.resolve(whole.path).files:
        other = file.with_name(file.name.replace("whole", "large"))
        assert file.read_bytes() == other.read_bytes()
    with pytest.raises(UsageError, match="npz has no slices"):
        exporters.convert(tmp_path / "v2", tmp_path / "m.npz", slicing=Slicing(3))


def test_the_step_goes_with_files_of_arrays(averaged, tmp_path):
    exporters.convert(averaged, tmp_path / "a.safetensors")
    with checkpoints.open(tmp_path / "a.safetensors") as saved:
        assert saved.metadata == {"step": "7"}
    without = Selection(drop=("step",))
    exporters.convert(averaged, tmp_path / "m.ckpt-8", selection=without)
    exporters.convert(tmp_path / "m.ckpt-8", tmp_path / "b.npz")
    with checkpoints.open(tmp_path / "b.npz") as saved:
        assert saved.metadata == {"step": "8"}
    done = exporters.convert(tmp_path / "b.npz", tmp_path / "c.ckpt")
    assert done.notes[-1].startswith("Left out: step; a V2 checkpoint has no place")
    done = exporters.convert(tmp_path / "a.safetensors", tmp_path / "d.ckpt")
    assert not [note for note in done.notes if "Left out" in note]


def test_class_names_travel_there_and_back(dense_net, tmp_path):
    metadata = Metadata(classes=("a", "b", "c", "d"), preprocessing={"kind": "inception"})
    folder = tmp_path / "run"
    folder.mkdir()
    checkpoints.write(folder / "model.ckpt-9", dense_net.values)
    dense_net.graph_def.node.append(metadata_node(metadata))
    (folder / "inference_graph.pb").write_bytes(dense_net.graph_def.SerializeToString())
    (folder / "signature.json").write_text("{}")

    done = exporters.convert(folder, tmp_path / "m.safetensors")
    assert done.metadata.classes == ("a", "b", "c", "d")
    with checkpoints.open(tmp_path / "m.safetensors") as saved:
        assert saved.metadata["step"] == "9"
        value = json.loads(saved.metadata["slimtune/metadata"])
        assert (value["classes"], value["step"]) == (["a", "b", "c", "d"], 9)
    del dense_net.graph_def.node[-1]
    exporters.convert(tmp_path / "m.safetensors", tmp_path / "m.pb", graph=dense_net.graph_def)
    back = read_metadata(read_graph(tmp_path / "m.pb"))
    assert back.classes == ("a", "b", "c", "d") and back.preprocessing == {"kind": "inception"}

    done = exporters.convert(folder, tmp_path / "m.ckpt")
    assert done.metadata is None
    assert any(note.startswith("Left out: slimtune/metadata;") for note in done.notes)


def test_labels_go_into_files_of_arrays_only(averaged, tmp_path):
    done = exporters.convert(averaged, tmp_path / "m.npz", labels=["a", "b"])
    assert done.metadata.classes == ("a", "b")
    with pytest.raises(UsageError, match="--labels says something of a model"):
        exporters.convert(averaged, tmp_path / "m.ckpt", labels=["a", "b"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"outputs": ["y"]}, "--outputs"),
        ({"inputs": ["x"]}, "--inputs"),
        ({"classes": 3}, "--classes"),
    ],
)
def test_options_of_graphs_are_refused_for_variables(averaged, tmp_path, options, named):
    with pytest.raises(UsageError, match=f"and {named} says something of a model"):
        exporters.convert(averaged, tmp_path / "m.npz", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"selection": Selection(include=("w",))},
        {"selection": Selection(exclude=("b",))},
        {"selection": Selection(rename=("s|a|b|",))},
        {"selection": Selection(dtype="float16")},
        {"selection": Selection(drop=("slots",))},
        {"slicing": Slicing(2)},
    ],
)
def test_options_of_variables_are_refused_for_graphs(dense_net, tmp_path, options):
    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    with pytest.raises(UsageError, match="needs all of its variables as they are"):
        exporters.convert(
            tmp_path / "m.ckpt", tmp_path / "m.pb", graph=dense_net.graph_def, **options
        )
    assert not (tmp_path / "m.pb").exists()


def test_a_graph_without_variables_has_no_weights_to_choose(dense_net, tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    exporters.convert(tmp_path / "m.ckpt", tmp_path / "m.pb", graph=dense_net.graph_def)
    with pytest.raises(UsageError, match="--weights chooses between variables"):
        exporters.convert(tmp_path / "m.pb", tmp_path / "n.pb", selection=Selection(weights="ema"))


def test_arrays_are_variables_for_a_graph(dense_net, tmp_path):
    checkpoints.write(tmp_path / "m.npz", dense_net.values)
    exporters.convert(tmp_path / "m.npz", tmp_path / "m.pb", graph=dense_net.graph_def)
    weights = constant_value(read_graph(tmp_path / "m.pb").nodes["fc/weights"])
    np.testing.assert_array_equal(weights, dense_net.values["fc/weights"])


def test_nothing_left_is_an_error_and_writes_nothing(averaged, tmp_path):
    with pytest.raises(NotFoundError):
        exporters.convert(averaged, tmp_path / "m.npz", selection=Selection(include=("none",)))
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize("form", FORMS)
def test_the_source_itself_is_no_destination(tmp_path, form):
    path = tmp_path / FORMS[form]
    checkpoints.write(path, {"w": np.ones(1)}, version=form)
    with pytest.raises(UsageError, match="is the source itself"):
        convert(path, path, form, overwrite=True)


def test_a_cast_that_is_not_what_was_written_fails(tmp_path, monkeypatch):
    from checkpoints import bundle_writer

    checkpoints.write(tmp_path / "m.ckpt", {"w": np.ones(3, np.float32)})
    little_endian = bundle_writer.little_endian_bytes

    def changed(array):
        content = bytearray(little_endian(array))
        content[0] ^= 1
        return memoryview(bytes(content))

    monkeypatch.setattr(bundle_writer, "little_endian_bytes", changed)
    with pytest.raises(VerificationError, match="w: differs"):
        exporters.convert(
            tmp_path / "m.ckpt", tmp_path / "n.ckpt", selection=Selection(dtype="bfloat16")
        )
    assert not (tmp_path / "n.ckpt.index").exists()
    done = exporters.convert(tmp_path / "m.ckpt", tmp_path / "n.ckpt", verify="none")
    assert done.verification.passed is None
