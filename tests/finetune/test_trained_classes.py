"""A head answers for the classes it was trained for, and for no others that are as many."""

from __future__ import annotations

import json
import shutil

import pytest

from checkpoints.errors import DataError, PlanError
from finetune import TrainConfig, train
from finetune.model import open_model
from finetune.run import Run
from finetune.trained_classes import classes_beside, classes_of_run, refuse_other_classes

pytestmark = pytest.mark.tensorflow

COLOURS = ("blue", "green", "red")


def config(data, run, **options):
    defaults = {"net": "tiny", "batch_size": 8, "steps": 1, "augment": "none"}
    return TrainConfig(data=str(data), run=str(run), **{**defaults, **options})


@pytest.fixture(scope="module")
def trained(colour_pictures, lasting_tiny_net, tmp_path_factory):
    """A folder of pictures and a run on it."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(colour_pictures, folder / "pictures")
    train(config(folder / "pictures", folder / "run", checkpoint="none"))
    return folder


@pytest.fixture
def copied(trained, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(trained, tmp_path / "copy")
    return tmp_path / "copy"


def state(directory):
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {path.relative_to(directory): path.read_bytes() for path in files}


def rename_class(pictures, old, new):
    (pictures / old).rename(pictures / new)


def test_a_run_does_not_go_on_with_a_class_of_another_name(copied):
    rename_class(copied / "pictures", "blue", "violet")
    before = state(copied)
    with pytest.raises(DataError, match="has other classes than the run") as caught:
        train(config(copied / "pictures", copied / "run", steps=2, resume=True))
    assert caught.value.message.endswith("only in the run: blue\n  only in the data: violet")
    assert caught.value.expected == "3 classes: blue, green, red"
    assert caught.value.received == "3 classes: green, red, violet"
    assert caught.value.next_step.endswith(f"--net tiny --checkpoint {copied / 'run'}")
    assert state(copied) == before


def test_a_run_does_not_go_on_with_a_class_more(copied):
    shutil.copytree(copied / "pictures" / "red", copied / "pictures" / "amber")
    before = state(copied)
    with pytest.raises(DataError) as caught:
        train(config(copied / "pictures", copied / "run", steps=2, resume=True))
    assert caught.value.message.endswith("\n  only in the data: amber")
    assert state(copied) == before


def test_nor_with_another_dataset_directory(copied):
    dataset = copied / "run-data"
    (dataset / "origin.json").unlink()
    told = json.loads((dataset / "dataset.json").read_text())
    names = {"blue": "lilac"}
    told["classes"] = [names.get(name, name) for name in told["classes"]]
    for split in told["splits"].values():
        split["counts"] = {names.get(name, name): n for name, n in split["counts"].items()}
    (dataset / "dataset.json").write_text(json.dumps(told))
    (dataset / "labels.txt").write_text("lilac\ngreen\nred\n")
    other = dataset.rename(copied / "other")
    before = state(copied)
    with pytest.raises(DataError, match="only in the run: blue\n  only in the data: lilac"):
        train(config(other, copied / "run", steps=2, resume=True))
    assert state(copied) == before


def test_the_same_classes_in_other_places_are_named(trained):
    run = Run(trained / "run")
    assert classes_of_run(run) == COLOURS
    refuse_other_classes(run, "data", COLOURS)
    with pytest.raises(DataError) as caught:
        refuse_other_classes(run, "data", ("green", "blue", "red"))
    assert caught.value.message.endswith(
        "class 0: blue in the run, green in the data\n  class 1: green in the run, blue in the data"
    )


def test_a_head_is_not_restored_for_other_classes(copied, tmp_path):
    rename_class(copied / "pictures", "blue", "violet")
    new = tmp_path / "new"
    prefix = copied / "run" / "model.ckpt-1"
    options = {"checkpoint": str(prefix), "exclude": ("none",)}
    with pytest.raises(PlanError, match="was trained for other classes, as ") as caught:
        train(config(copied / "pictures", new, **options))
    assert "only in the head: blue\n  only in the data: violet" in caught.value.message
    assert caught.value.next_step.startswith("--exclude Tiny/Logits,Tiny/AuxLogits starts a new")
    assert not new.exists()
    assert not (tmp_path / "new-data").exists()
    # Whoever says that only names are new gets the old head.
    (copied / "run" / "labels.txt").write_text("green\nred\nviolet\n")
    assert train(config(copied / "pictures", new, **options)).step == 1


def test_names_beside_a_checkpoint_are_its_heads(trained):
    prefix = trained / "run" / "model.ckpt-1"
    assert classes_beside(prefix, 3) == COLOURS
    assert classes_beside(trained / "run", 3) == COLOURS
    assert classes_beside(trained / "run" / "best" / "model.ckpt-1", 3) == COLOURS
    assert classes_beside(prefix, 4) == ()
    assert classes_beside(trained / "nothing" / "there.ckpt", 3) == ()
    assert open_model(prefix, net="tiny").classes == COLOURS


def test_convert_keeps_the_names_that_lie_beside(trained, tmp_path, slimtune):
    prefix = trained / "run" / "model.ckpt-1"
    code, _, said = slimtune("convert", prefix, tmp_path / "m.pb", "--net", "tiny")
    assert code == 0, said
    assert open_model(tmp_path / "m.pb").classes == COLOURS
