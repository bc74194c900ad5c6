"""Conversion without TensorFlow: which files are taken, what is written, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import (
    GraphError,
    NotFoundError,
    OutputExistsError,
    UsageError,
    VerificationError,
)
from checkpoints.family import write_state
from checkpoints.messages import MetaGraphDef
from exporters.constants import constant_value
from exporters.forms import FORMS, form_of
from exporters.graph import read_graph
from exporters.metadata import Metadata, metadata_node, read_metadata

FLOAT = np.dtype("float32")


@pytest.fixture
def saved(dense_net, tmp_path):
    """A checkpoint model.ckpt and its graph, model.ckpt.meta."""
    prefix = tmp_path / "model.ckpt"
    checkpoints.write(prefix, dense_net.values)
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    meta.meta_info_def.tensorflow_version = "0.12.head"
    prefix.with_name("model.ckpt.meta").write_bytes(meta.SerializeToString())
    return prefix


@pytest.fixture
def run(dense_net, tmp_path):
    """A run directory: two checkpoints, the best one, the net in evaluation mode."""
    folder = tmp_path / "run"
    (folder / "best").mkdir(parents=True)
    metadata = Metadata(
        classes=("a", "b", "c", "d"),
        preprocessing={"kind": "inception"},
        image_size=299,
        input="x:0",
        outputs={"probabilities": "probs:0", "logits": "logits:0", "bottleneck": "matmul:0"},
        net="tiny",
    )
    dense_net.graph_def.node.append(metadata_node(metadata))
    (folder / "inference_graph.pb").write_bytes(dense_net.graph_def.SerializeToString())
    (folder / "signature.json").write_text(json.dumps({"graph": "inference_graph.pb"}))
    for step, directory in ((10, folder), (20, folder), (15, folder / "best")):
        values = {name: value + step for name, value in dense_net.values.items()}
        checkpoints.write(directory / f"model.ckpt-{step}", values)
        (directory / f"model.ckpt-{step}.meta").write_bytes(b"of training; not to be read")
        write_state(directory, directory / f"model.ckpt-{step}")
    return folder


def weights(path) -> np.ndarray:
    return constant_value(read_graph(path).nodes["fc/weights"])


@pytest.mark.parametrize(
    "spelling",
    ["model.ckpt", "model.ckpt.meta", "model.ckpt.index", "model.ckpt.data-00000-of-00001"],
)
def test_a_checkpoint_in_any_spelling(saved, tmp_path, spelling, heard):
    done = exporters.convert(tmp_path / spelling, tmp_path / "m.pb", progress=heard)
    assert done.path == tmp_path / "m.pb"
    assert (done.form, done.graph, done.checkpoint) == (
        "pb",
        tmp_path / "model.ckpt.meta",
        tmp_path / "model.ckpt",
    )
    assert done.verification.mode == "structure"
    assert [output.name for output in done.outputs] == ["probs:0"]
    assert done.inputs[0].as_json() == {"name": "x:0", "dtype": "float32", "shape": [None, 4]}
    assert list(done.notes) == heard.said
    assert any("Output probs:0, guessed" in note for note in done.notes)
    assert json.loads(json.dumps(done.as_json()))["verification"]["passed"] is True
    with checkpoints.open(saved) as values:
        np.testing.assert_array_equal(weights(done.path), values["fc/weights"])
    assert read_metadata(read_graph(done.path)) is None


def test_a_run_gives_its_latest_checkpoint_and_its_own_graph(run, tmp_path, dense_net):
    done = exporters.convert(run, tmp_path / "m.pb")
    assert done.graph == run / "inference_graph.pb"
    assert done.checkpoint == run / "model.ckpt-20"
    np.testing.assert_array_equal(weights(done.path), dense_net.values["fc/weights"] + 20)
    metadata = read_metadata(read_graph(done.path))
    assert metadata == done.metadata
    assert metadata.classes == ("a", "b", "c", "d")
    assert metadata.step == 20
    assert metadata.outputs["bottleneck"] == "matmul:0"
    assert [output.name for output in done.outputs] == ["probs:0", "logits:0", "matmul:0"]


@pytest.mark.parametrize(
    ("spelling", "step"),
    [("best", 15), ("model.ckpt-10", 10), ("model.ckpt-10.index", 10), ("best/model.ckpt-15", 15)],
)
def test_any_checkpoint_of_a_run_takes_the_runs_graph(run, tmp_path, spelling, step):
    done = exporters.convert(run / spelling, tmp_path / "m.pb")
    assert done.graph == run / "inference_graph.pb"
    assert done.metadata.step == step


def test_a_run_that_was_moved_and_evaluated_gives_the_same_bytes(run, tmp_path):
    first = exporters.convert(run, tmp_path / "first.pb").path.read_bytes()
    moved = run.rename(tmp_path / "elsewhere über")
    (moved / "events.out.tfevents.9").write_bytes(b"graph of an evaluation")
    (moved / "graph.pbtxt").write_text("node { name: 'other' op: 'NoOp' }")
    assert exporters.convert(moved, tmp_path / "second.pb").path.read_bytes() == first


def test_a_graph_and_a_checkpoint_are_given_apart(saved, dense_net, tmp_path):
    (tmp_path / "model.ckpt.meta").unlink()
    graph = tmp_path / "eval.pbtxt"
    from google.protobuf import text_format

    graph.write_text(text_format.MessageToString(dense_net.graph_def))
    options = ({"graph": graph}, {"graph": dense_net.graph_def}, {"graph": dense_net.graph})
    contents = {
        exporters.convert(saved, tmp_path / f"{index}.pb", **given).path.read_bytes()
        for index, given in enumerate(options)
    }
    done = exporters.convert(graph, tmp_path / "m.pb", checkpoint=saved)
    assert done.checkpoint == saved
    assert contents == {done.path.read_bytes()}


def test_a_meta_whose_checkpoint_is_elsewhere(saved, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    meta = (tmp_path / "model.ckpt.meta").rename(alone / "graph.meta")
    with pytest.raises(NotFoundError) as caught:
        exporters.convert(meta, tmp_path / "m.pb")
    assert caught.value.next_step == "Say where the variables are: --checkpoint C"
    done = exporters.convert(meta, tmp_path / "m.pb", checkpoint=saved)
    assert done.graph == meta


def test_a_frozen_graph_is_cut_to_other_outputs(saved, tmp_path):
    whole = exporters.convert(saved, tmp_path / "whole.pb").path
    done = exporters.convert(whole, tmp_path / "part.pb", outputs=["logits"])
    assert "probs" not in read_graph(done.path).nodes
    assert done.checkpoint is None
    np.testing.assert_array_equal(weights(done.path), weights(whole))


def test_a_graph_may_have_any_name(saved, tmp_path):
    whole = exporters.convert(saved, tmp_path / "whole.pb").path.rename(tmp_path / "model")
    assert exporters.convert(whole, tmp_path / "m.pb").graph == whole


def test_a_saved_model_of_tensorflow_1(shared, tmp_path):
    done = exporters.convert(
        shared / "data/models/half_plus_two_saved_model",
        tmp_path / "m.pb",
        inputs=["x"],
        verify="structure",
    )
    assert done.checkpoint.name == "variables"
    nodes = read_graph(done.path).nodes
    assert (nodes["x"].op, list(nodes["y"].input)) == ("Placeholder", ["Add"])
    assert done.outputs[0].name == "y:0"


class TestLabels:
    @pytest.mark.parametrize("count", [3, 5])
    def test_another_number_than_classes_is_refused(self, saved, tmp_path, count):
        labels = tmp_path / "labels.txt"
        labels.write_text("\n".join(f"class {index}" for index in range(count)))
        with pytest.raises(GraphError, match=r"labels\.txt does not fit the model") as caught:
            exporters.convert(saved, tmp_path / "m.pb", labels=labels)
        assert caught.value.expected == "4 class names, one for each logit"
        assert caught.value.received == str(count)
        assert not (tmp_path / "m.pb").exists()

    def test_they_travel_in_the_file(self, saved, tmp_path):
        done = exporters.convert(saved, tmp_path / "m.pb", labels=["花", "b", "c", "d"])
        assert done.metadata.classes == ("花", "b", "c", "d")
        assert done.metadata.outputs == {"probabilities": "probs:0"}
        assert done.metadata.input == "x:0"
        assert read_metadata(read_graph(done.path)) == done.metadata

    def test_they_replace_those_of_a_run(self, run, tmp_path):
        done = exporters.convert(run, tmp_path / "m.pb", labels=["1", "2", "3", "4"])
        assert done.metadata.classes == ("1", "2", "3", "4")
        assert done.metadata.preprocessing == {"kind": "inception"}

    def test_a_count_that_cannot_be_told_is_refused(self, builder, tmp_path):
        builder.add("Placeholder", "x", dtype=FLOAT)
        read = builder.variable("w", np.zeros(3, np.float32))
        builder.add("Mystery", "out", "x", read)
        checkpoints.write(tmp_path / "c.ckpt", builder.values)
        with pytest.raises(GraphError, match="How many classes out:0 has cannot be told"):
            exporters.convert(
                tmp_path / "c.ckpt", tmp_path / "m.pb", graph=builder.graph, labels=["a"]
            )

    def test_metadata_with_another_number_of_names_is_refused(self, run, tmp_path, dense_net):
        node = dense_net.graph_def.node[-1]
        text = node.attr["value"].tensor.string_val[0].replace(b'"a", ', b"")
        node.attr["value"].tensor.string_val[0] = text
        (run / "inference_graph.pb").write_bytes(dense_net.graph_def.SerializeToString())
        with pytest.raises(GraphError, match="class names in the metadata does not fit"):
            exporters.convert(run, tmp_path / "m.pb")


def test_asking_for_another_number_of_classes_is_refused(run, saved, tmp_path):
    for source in (run, saved):
        with pytest.raises(GraphError, match="does not have 5 classes") as caught:
            exporters.convert(source, tmp_path / "m.pb", classes=5)
        assert caught.value.expected == "4, as its weights have"
    assert exporters.convert(run, tmp_path / "m.pb", classes=4).nodes == 9


def test_weights_alone_need_a_graph(saved, tmp_path):
    (tmp_path / "model.ckpt.meta").unlink()
    with pytest.raises(GraphError, match="holds variables only") as caught:
        exporters.convert(saved, tmp_path / "m.pb")
    assert "--graph FILE, or --net NAME --classes N" in caught.value.expected
    assert caught.value.next_step == "Add --graph FILE (.meta, .pb or .pbtxt)."


def test_weights_of_a_known_net_name_the_net(tmp_path):
    values = {
        "InceptionV3/Logits/Conv2d_1c_1x1/biases": np.zeros(1001, np.float32),
        "InceptionV3/Conv2d_1a_3x3/weights": np.zeros((3, 3, 3, 32), np.float32),
    }
    checkpoints.write(tmp_path / "inception_v3.ckpt", values)
    with pytest.raises(GraphError) as caught:
        exporters.convert(tmp_path / "inception_v3.ckpt", tmp_path / "m.pb")
    assert "with the names of inception_v3" in caught.value.received
    assert caught.value.next_step == (
        "Add --net inception_v3 --classes 1001, or name the one of these nets that is as wide."
    )


def test_a_checkpoint_becomes_a_v2_checkpoint(shared, tmp_path):
    source = shared / "data/models/regression_v1_v2/regression_v1.ckpt"
    done = exporters.convert(source, tmp_path / "copy.ckpt")
    assert (done.form, done.nodes, done.graph) == ("v2", None, None)
    assert done.verification.passed
    with checkpoints.open(source) as old, checkpoints.open(done.path) as new:
        assert new.family.kind == "checkpoint-v2"
        assert list(old) == list(new)
        for name in old:
            np.testing.assert_array_equal(new[name], old[name])
    with pytest.raises(OutputExistsError):
        exporters.convert(source, tmp_path / "copy.ckpt")
    assert exporters.convert(source, tmp_path / "copy.ckpt", overwrite=True).parameters == 7850


def test_checkpoints_that_cannot_be_copied(saved, tmp_path):
    with pytest.raises(UsageError, match="is the source itself"):
        exporters.convert(saved, saved, overwrite=True)
    with pytest.raises(UsageError, match="cannot be run"):
        exporters.convert(saved, tmp_path / "c.ckpt", verify="run")
    frozen = exporters.convert(saved, tmp_path / "m.pb").path
    with pytest.raises(OutputExistsError):
        exporters.convert(frozen, saved)


def test_a_copy_that_differs_is_removed(saved, tmp_path, monkeypatch):
    from checkpoints import verified

    monkeypatch.setattr(verified, "same_bytes", lambda ours, theirs, pages: False)
    with pytest.raises(VerificationError, match="would not hold the variables"):
        exporters.convert(saved, tmp_path / "copy" / "c.ckpt")
    assert not list((tmp_path / "copy").iterdir())


def test_what_is_neither_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(GraphError, match="neither a checkpoint nor a graph") as caught:
        exporters.convert(path, tmp_path / "m.pb")
    assert caught.value.received == "a text file"
    with pytest.raises(NotFoundError):
        exporters.convert(tmp_path / "none.ckpt", tmp_path / "m.pb")


def test_an_existing_file_is_kept(saved, tmp_path):
    (tmp_path / "m.pb").write_bytes(b"old")
    with pytest.raises(OutputExistsError):
        exporters.convert(saved, tmp_path / "m.pb")
    assert (tmp_path / "m.pb").read_bytes() == b"old"
    exporters.convert(saved, tmp_path / "m.pb", overwrite=True)
    assert weights(tmp_path / "m.pb").shape == (4, 4)


class TestForms:
    @pytest.mark.parametrize(
        ("name", "form"),
        [
            ("m.pb", "pb"),
            ("a.b/m.ckpt", "v2"),
            ("m.ckpt-120", "v2"),
            ("m.npz", "npz"),
            ("m.safetensors", "safetensors"),
            ("m.meta", "meta"),
            ("m.pbtxt", "pbtxt"),
            ("model/", "saved-model"),
        ],
    )
    def test_the_name_tells_the_form(self, name, form):
        assert form_of(name).name == form

    def test_to_goes_before_the_name(self):
        assert form_of("m.ckpt", "pb").name == "pb"

    @pytest.mark.parametrize(("name", "to"), [("model", None), ("m.h5", None), ("m.pb", "tflit")])
    def test_what_is_no_form_is_wrong_usage(self, name, to):
        with pytest.raises(UsageError):
            form_of(name, to)

    def test_every_writer_is_there(self):
        from exporters.conversion import _load

        for form in FORMS.values():
            assert callable(_load(form.writer))


def test_no_tensorflow_is_loaded(saved, run, tmp_path):
    code = (
        "import sys, exporters\n"
        f"exporters.convert({str(saved)!r}, {str(tmp_path / 'one.pb')!r})\n"
        f"exporters.convert({str(run)!r}, {str(tmp_path / 'two.pb')!r})\n"
        f"exporters.convert({str(saved)!r}, {str(tmp_path / 'three.ckpt')!r})\n"
        "heavy = {'tensorflow', 'tf_slim', 'tf_keras', 'matplotlib', 'requests'}\n"
        "sys.exit(repr(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_evaluation_writes_beside_a_checkpoint_changes_nothing(saved, tmp_path):
    before = exporters.convert(saved, tmp_path / "before.pb").path.read_bytes()
    folder = saved.parent
    (folder / "graph.pbtxt").write_text('node { name: "other" op: "Placeholder" }')
    (folder / "eval").mkdir()
    (folder / "eval/graph.pbtxt").write_text('node { name: "other" op: "Placeholder" }')
    (folder / "events.out.tfevents.1.host").write_bytes(b"events")
    (folder / "other.meta").write_bytes(MetaGraphDef().SerializeToString())
    for source in (saved, folder):
        after = exporters.convert(source, tmp_path / "after.pb", overwrite=True)
        assert after.path.read_bytes() == before


def test_constants_in_a_meta_and_back(saved, tmp_path):
    frozen = exporters.convert(saved, tmp_path / "m.pb").path
    meta = exporters.convert(frozen, tmp_path / "constants.meta").path
    again = exporters.convert(meta, tmp_path / "again.pb")
    assert again.path.read_bytes() == frozen.read_bytes()
    thawed = exporters.convert(meta, tmp_path / "thawed.ckpt")
    assert (
        exporters.convert(thawed.path, tmp_path / "b.pb").path.read_bytes() == frozen.read_bytes()
    )
    with pytest.raises(NotFoundError, match="not beside it") as caught:
        exporters.convert(
            exporters.convert(saved, tmp_path / "lonely.meta").path, tmp_path / "c.pb"
        )
    assert "--checkpoint" in caught.value.next_step


def test_the_constants_of_a_frozen_graph_are_counted(dense_net, tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    exporters.convert(tmp_path / "m.ckpt", tmp_path / "m.pb", graph=dense_net.graph_def)
    done = exporters.convert(tmp_path / "m.pb", tmp_path / "n.pb")
    assert done.parameters == 20
