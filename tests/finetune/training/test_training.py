"""Training a tiny net: what changes, what must not, what is refused, what is left behind."""

import json
import shutil
import struct

import numpy as np
import pytest
from PIL import Image

import checkpoints
from checkpoints.errors import CheckpointError, DataError, PlanError, RunError
from exporters.runtime import load_tensorflow
from finetune import TrainConfig, evaluate, plan, train
from finetune.planning import refuse_unknown_scopes
from finetune.run import Run
from finetune.weights import find_weights

pytestmark = pytest.mark.tensorflow


def config(colours, run, **options):
    defaults = {"net": "tiny", "batch_size": 8, "steps": 2, "learning_rate": 0.05}
    return TrainConfig(data=str(colours), run=str(run), **{**defaults, **options})


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def test_only_the_main_head_changes_and_the_rest_is_the_checkpoints_bit_for_bit(
    colours, run, tiny_checkpoint
):
    result = train(config(colours, run, checkpoint=str(tiny_checkpoint), steps=6))
    assert (result.step, result.frozen_verified) == (6, 10)
    with checkpoints.open(tiny_checkpoint) as source, checkpoints.open(run) as trained:
        trunk = [name for name in source if "Logits" not in name]
        assert len(trunk) == 8
        assert any("moving_mean" in name for name in trunk)
        for name in trunk:
            assert trained[name].tobytes() == source[name].tobytes(), name
        assert trained["Tiny/Logits/fc/weights"].shape == (1, 1, 16, 3)
        assert trained["global_step"] == 6
        slots = [name for name in trained if name.endswith("/Adam")]
        assert slots == ["Tiny/Logits/fc/biases/Adam", "Tiny/Logits/fc/weights/Adam"]


def test_a_trained_scope_changes_its_averages_too_and_no_other_scope(colours, run, tiny_checkpoint):
    train(
        config(
            colours,
            run,
            checkpoint=str(tiny_checkpoint),
            trainable=("Tiny/Conv2d_1", "Tiny/Logits"),
        )
    )
    with checkpoints.open(tiny_checkpoint) as source, checkpoints.open(run) as trained:

        def changed(name):
            return trained[name].tobytes() != source[name].tobytes()

        assert changed("Tiny/Conv2d_1/weights")
        assert changed("Tiny/Conv2d_1/BatchNorm/beta")
        assert changed("Tiny/Conv2d_1/BatchNorm/moving_mean")
        assert not any(changed(name) for name in source if name.startswith("Tiny/Conv2d_10/"))


def test_it_learns(colours, run, tiny_net, heard):
    result = train(
        config(colours, run, checkpoint="none", trainable=("Tiny",), steps=60, augment="none"),
        progress=heard,
    )
    assert result.accuracy >= 0.9
    assert result.best_accuracy >= result.accuracy
    assert "Learning rate 0.05, fixed, for 60 steps." in heard.said


def test_going_on_equals_not_stopping(colours, tmp_path, tiny_checkpoint):
    options = {"checkpoint": str(tiny_checkpoint), "optimizer": "momentum", "dropout": 0.0}
    train(config(colours, tmp_path / "whole", steps=5, **options))
    train(config(colours, tmp_path / "parts", steps=2, **options))
    train(config(colours, tmp_path / "parts", steps=5, resume=True))
    with (
        checkpoints.open(tmp_path / "whole") as whole,
        checkpoints.open(tmp_path / "parts") as parts,
    ):
        assert list(whole) == list(parts)
        for name in whole:
            np.testing.assert_allclose(parts[name], whole[name], rtol=1e-5, atol=1e-7)
    steps = [entry["step"] for entry in Run(tmp_path / "parts").read_metrics()]
    assert steps == sorted(steps)


def test_a_finished_run_says_so_and_how_to_go_on(colours, run, tiny_net, heard):
    """Case R7."""
    train(config(colours, run, checkpoint="none"))
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    result = train(config(colours, run, checkpoint="none"), progress=heard)
    assert result.finished_before
    assert result.step == 2
    assert heard.said == [
        f"{run} is finished: 2 of 2 steps. To go on: --resume with more --steps or --epochs, "
        "as in --resume --steps 4; --overwrite starts again."
    ]
    assert {path.name: path.stat().st_mtime_ns for path in run.iterdir()} == before
    assert train(config(colours, run, resume=True)).finished_before


def test_an_unfinished_run_is_refused_and_resume_is_named(colours, run, tiny_net):
    train(config(colours, run, checkpoint="none"))
    stored = json.loads((run / "config.json").read_text())
    del stored["ended_at"]
    (run / "config.json").write_text(json.dumps({**stored, "steps": 9, "total_steps": 9}))
    with pytest.raises(RunError) as caught:
        train(config(colours, run, checkpoint="none"))
    assert caught.value.message == f"{run} holds an unfinished run, at step 2 of 9."
    assert "--resume" in caught.value.next_step
    assert train(config(colours, run, steps=None, resume=True)).step == 9


def test_overwriting_leaves_other_peoples_files(colours, run, tiny_net):
    train(config(colours, run, checkpoint="none"))
    (run / "notes.txt").write_text("mine")
    result = train(config(colours, run, checkpoint="none", steps=1, overwrite=True))
    assert result.step == 1
    assert (run / "notes.txt").read_text() == "mine"
    assert [path.name for path in sorted(run.glob("model.ckpt-*.index"))] == ["model.ckpt-1.index"]
    assert {entry["step"] for entry in Run(run).read_metrics()} == {1}


def test_a_directory_with_other_files_is_left_alone(colours, run, tiny_net):
    run.mkdir()
    (run / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty and holds no run"):
        train(config(colours, run, checkpoint="none"))
    assert [path.name for path in run.iterdir()] == ["thesis.txt"]


def test_there_is_nothing_to_go_on_with(colours, run, tiny_net):
    with pytest.raises(RunError, match="no run in"):
        train(config(colours, run, resume=True))
    assert not run.exists()


def test_a_head_of_another_size_is_refused_before_anything_is_written(
    colours, run, tiny_checkpoint
):
    with pytest.raises(PlanError) as caught:
        train(config(colours, run, checkpoint=str(tiny_checkpoint), exclude=("none",)))
    assert "Tiny/Logits/fc/weights: checkpoint [1, 1, 16, 7], net [1, 1, 16, 3]" in str(
        caught.value
    )
    assert caught.value.next_step.startswith("--exclude Tiny/AuxLogits/fc,Tiny/Logits/fc ")
    assert not run.exists()


def test_a_folder_of_pictures_is_built_beside_the_run_first(colour_pictures, run, tiny_net):
    result = train(config(colour_pictures, run, checkpoint="none"))
    assert result.step == 2
    assert (run.parent / "run-data" / "dataset.json").is_file()


def test_labels_that_name_no_class_are_found_before_step_0(colours, run, tiny_net, tmp_path):
    copied = tmp_path / "copied"
    copied.mkdir()
    for file in colours.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    dataset = json.loads((copied / "dataset.json").read_text())
    dataset["classes"] = dataset["classes"][:2]
    for split in dataset["splits"].values():
        split["counts"].pop(json.loads((colours / "dataset.json").read_text())["classes"][2])
    (copied / "dataset.json").write_text(json.dumps(dataset))
    with pytest.raises(DataError, match="do not name a class"):
        train(config(copied, run, checkpoint="none"))
    assert not run.exists()


def test_the_run_directory_holds_what_it_should_and_can_be_moved(colours, run, tiny_checkpoint):
    train(config(colours, run, checkpoint=str(tiny_checkpoint), steps=5, eval_every=1, keep=2))
    moved = run.rename(run.with_name("moved"))
    names = {path.name for path in moved.iterdir()}
    assert {
        "best",
        "checkpoint",
        "config.json",
        "evaluation.json",
        "inference_graph.pb",
        "labels.txt",
        "metrics.jsonl",
        "plan.json",
        "signature.json",
    } <= names
    checkpoints_kept = sorted(path.name for path in moved.glob("*.index"))
    assert checkpoints_kept == ["model.ckpt-4.index", "model.ckpt-5.index"]
    assert "/" not in (moved / "checkpoint").read_text()
    assert (moved / "labels.txt").read_text() == "blue\ngreen\nred\n"
    plan = json.loads((moved / "plan.json").read_text())
    digests = {v["name"]: v["sha256"] for v in plan["variables"] if v["sha256"]}
    assert len(digests) == 10
    assert plan["net"] == "tiny"
    assert checkpoints.open(moved).family.step == 5


def test_tensorboard_reads_what_metrics_jsonl_says(colours, run, tiny_net):
    train(config(colours, run, checkpoint="none", steps=3, eval_every=3))
    v1 = load_tensorflow().compat.v1
    (events,) = run.glob("events.out.tfevents.*")
    found = {
        (value.tag, event.step): value
        for event in v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    sheet = found.pop(("train/pictures", 0))
    assert (sheet.image.width, sheet.image.height) == (76, 76)
    histograms = [key for key, value in found.items() if value.HasField("histo")]
    assert sorted(histograms) == [
        ("variables/Tiny/Logits/fc/biases", 3),
        ("variables/Tiny/Logits/fc/weights", 3),
    ]
    for key in histograms:
        del found[key]
    written = {
        (f"{entry['split']}/{name}", entry["step"]): value
        for entry in Run(run).read_metrics()
        for name, value in entry.items()
        if name not in ("split", "step")
    }
    assert written.keys() == found.keys()
    for key, value in written.items():
        assert found[key].simple_value == struct.unpack("f", struct.pack("f", value))[0]


def test_a_checkpoints_meta_goes_on_in_plain_tensorflow(colours, run, tiny_net):
    train(config(colours, run, checkpoint="none"))
    v1 = load_tensorflow().compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        saver = v1.train.import_meta_graph(str(run / "model.ckpt-2.meta"))
        saver.restore(session, v1.train.latest_checkpoint(str(run)))
        assert session.run(v1.train.get_global_step()) == 2


def test_one_class_is_nothing_to_tell_apart(tmp_path, run, tiny_net):
    folder = tmp_path / "pictures" / "only"
    folder.mkdir(parents=True)
    for number in range(6):
        Image.fromarray(np.full((9, 9, 3), number, np.uint8)).save(folder / f"{number}.png")
    with pytest.raises(DataError, match="one class"):
        train(config(tmp_path / "pictures", run, checkpoint="none"))
    assert not run.exists()


def test_a_head_without_names_is_not_scored_on_another_number_of_classes(colours, tiny_checkpoint):
    with pytest.raises(DataError) as caught:
        evaluate(tiny_checkpoint, colours, net="tiny")
    assert caught.value.expected == "3: the data's 3"
    assert caught.value.received == "7 in the model"


def test_a_checkpoint_that_somebody_put_into_a_run_is_not_the_runs(colours, run, tiny_checkpoint):
    train(config(colours, run, checkpoint=str(tiny_checkpoint)))
    for file in tiny_checkpoint.parent.glob("tiny.ckpt.*"):
        (run / file.name).write_bytes(file.read_bytes())
    (run / "checkpoint").write_text('model_checkpoint_path: "tiny.ckpt"\n')
    assert Run(run).latest() == run / "model.ckpt-2"


def test_a_loss_that_is_no_number_ends_the_run_with_the_rate_named(colours, run, tiny_net):
    with pytest.raises(RunError, match="is no number") as caught:
        train(
            config(
                colours,
                run,
                checkpoint="none",
                trainable=("Tiny",),
                optimizer="sgd",
                learning_rate=1e30,
                steps=20,
            )
        )
    assert "Lower --learning-rate (1e+30)" in caught.value.next_step
    assert "no checkpoint was written yet" in caught.value.next_step


def test_a_finished_run_refuses_other_options_and_other_data(
    colours, colour_pictures, run, tiny_net
):
    train(config(colours, run, checkpoint="none"))
    before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    for options in ({}, {"resume": True}):
        with pytest.raises(RunError) as caught:
            train(config(colours, run, learning_rate=0.5, seed=3, **options))
        assert "--seed: the run has 0, received 3" in caught.value.message
    assert before == {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
    with pytest.raises(RunError) as caught:
        train(config(colours, run, loss="a:b", steps=9))
    assert "--loss: the run has none, received a:b" in caught.value.message
    assert "--steps: the run has 2, received 9" in caught.value.message
    assert "--resume with more --steps" in caught.value.next_step
    with pytest.raises(RunError) as caught:
        train(config(colour_pictures, run))
    assert f"DATA: the run has {colours}, received {colour_pictures}" in caught.value.message
    moved = run.parent / "moved"
    shutil.copytree(colours, moved)
    assert train(config(moved, run, steps=None, learning_rate=None)).finished_before


def test_a_damaged_checkpoint_is_told_before_going_on(colours, run, tiny_net):
    train(config(colours, run, checkpoint="none", steps=4, eval_every=2))
    newest = run / "model.ckpt-4.data-00000-of-00001"
    whole = newest.read_bytes()
    newest.write_bytes(whole[:100] + b"\xff" * 8 + whole[108:])
    with pytest.raises(CheckpointError, match=r"model\.ckpt-4, from which .* is damaged") as caught:
        train(config(colours, run, steps=6, resume=True))
    assert caught.value.next_step.endswith("then goes on from step 2, which is whole.")
    newest.unlink()
    (run / "model.ckpt-2.index").unlink()
    with pytest.raises(CheckpointError) as caught:
        train(config(colours, run, steps=6, resume=True))
    assert f"--checkpoint {run / 'best'}" in caught.value.next_step
    shutil.rmtree(run / "best")
    with pytest.raises(CheckpointError) as caught:
        train(config(colours, run, steps=6, resume=True))
    assert "Start again with --overwrite" in caught.value.next_step


MISSPELLED = {
    "trainable": ({"trainable": ("Tiny/Logits", "Tiny/Conv2d_2")}, "--trainable"),
    "in a head": ({"trainable": ("Tiny/Logits/fcc",)}, "--trainable"),
    "unfreeze-at": ({"unfreeze_at": ("1:Tiny/Conv2d_2",)}, "--unfreeze-at"),
    "exclude": ({"exclude": ("Tiny/AuxLogit", "Tiny/Logits")}, "--exclude"),
}


@pytest.mark.parametrize("checkpoint", ["none", "tiny"])
@pytest.mark.parametrize(("options", "option"), MISSPELLED.values(), ids=MISSPELLED)
def test_a_misspelled_scope_is_told_before_pictures_are_read(
    colour_pictures, run, tiny_checkpoint, monkeypatch, heard, checkpoint, options, option
):
    monkeypatch.setattr("finetune.training_data.build", None)
    monkeypatch.setattr("finetune.training.trainer.build_training_net", None)
    checkpoint = str(tiny_checkpoint) if checkpoint == "tiny" else checkpoint
    with pytest.raises(PlanError, match=f"{option} names a scope without a variable") as caught:
        train(config(colour_pictures, run, checkpoint=checkpoint, **options), progress=heard)
    assert heard.said == []
    near = {"--exclude": "Tiny/AuxLogits"}.get(option, "Tiny/Conv2d_1")
    assert ("Tiny/Logits/fc" if "fcc" in str(options) else near) in caught.value.message
    assert [path.name for path in run.parent.iterdir()] == ["weights"]


def test_scopes_that_the_checkpoint_has_are_known_without_building_the_net(
    tiny_checkpoint, monkeypatch
):
    monkeypatch.setattr("finetune.nets.inference_graph", None)
    weights = find_weights("tiny", str(tiny_checkpoint))
    refuse_unknown_scopes(
        weights, ("heads", "Tiny/Conv2d_10"), ("3:Tiny/Conv2d_1", "all"), ("Tiny/Logits",)
    )


def test_what_train_says_of_its_plan_is_what_plan_says(colours, run, tiny_checkpoint, heard):
    options = {
        "net": "tiny",
        "checkpoint": str(tiny_checkpoint),
        "hidden": (5,),
        "unfreeze_at": ("1:Tiny/Conv2d_10",),
    }
    train(config(colours, run, **options), progress=heard)
    made = plan(classes=3, **options)
    first, *more = made.lines()
    place = heard.said.index(f"tiny: {first}")
    assert heard.said[place + 1 : place + 1 + len(more)] == more
    assert more[-1] == (
        "Phase 2 of 2, from step 2 on, also trains Tiny/Conv2d_10: 2 more variables, "
        "1,168 more parameters."
    )
    stored = json.loads((run / "plan.json").read_text())["phases"]
    assert [(phase["first"], phase["last"], phase["begins"]) for phase in stored] == [
        (0, 1, "step 1"),
        (1, 2, "step 2"),
    ]
    assert [phase["scopes"] for phase in stored] == [["Tiny/Logits"], ["Tiny/Conv2d_10"]]
