"""What a model is worth on a split, by a model of which every answer is known."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from checkpoints.errors import DataError, NotFoundError, UnsupportedError, UsageError
from checkpoints.published import CHECKPOINTS, get_checkpoint
from finetune import evaluate
from finetune.datasets.dataset import read_dataset
from finetune.evaluating.batch_statistics import equal_batches
from finetune.evaluating.evaluation import default_split
from finetune.model import open_model

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run(colour_model, tmp_path):
    run = colour_model.begin_run(tmp_path / "run", 20)
    colour_model.save(run, 20)
    return run


def digests(folder):
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_each_picture_of_the_split_counts_once(run, colours):
    found = evaluate(run, colours)
    assert (found.split, found.step, found.accuracy) == ("val", 20, 1.0)
    assert len(set(found.names)) == found.count == 16
    assert found.confusion().diagonal().sum() == 16
    assert evaluate(run, colours, split="train").count == 44


def test_nothing_of_the_run_changes_not_even_by_batch_statistics(run, colours):
    before = digests(run)
    evaluate(run, colours)
    evaluate(run, colours, batch_statistics=True)
    assert digests(run) == before


def test_a_model_that_says_the_colours_backwards(colour_model, run, colours):
    colour_model.save(run, 30, weights=np.eye(3, dtype=np.float32) * 4)
    found = evaluate(run, colours)
    assert found.step == 30
    counts = found.confusion()
    # Green stays green; blue is called red and red blue.
    assert counts[0, 2] + counts[1, 1] + counts[2, 0] == found.count
    assert found.mistakes(1)[0]["path"].split("/")[0] in ("blue", "red")


def test_forms_of_one_model_agree(colour_model, run, colours, tmp_path):
    import exporters

    expected = evaluate(run, colours).probabilities
    frozen = colour_model.write_pb(tmp_path / "m.pb")
    for path in [
        frozen,
        exporters.convert(frozen, tmp_path / "saved", to="saved-model").path,
        exporters.convert(frozen, tmp_path / "m.tflite").path,
        run / "model.ckpt-20",
    ]:
        found = evaluate(path, colours)
        np.testing.assert_allclose(found.probabilities, expected, rtol=1e-4, atol=1e-6)


def test_a_graph_with_a_fixed_batch_is_run_a_picture_at_a_time(colour_model, colours, tmp_path):
    expected = evaluate(colour_model.write_pb(tmp_path / "free.pb"), colours)
    for batch in (1, 5):
        fixed = colour_model.write_pb(tmp_path / "fixed.pb", batch=batch)
        found = evaluate(fixed, colours)
        assert found.names == expected.names
        np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-5)


def test_pictures_of_a_folder_are_named_with_it(colour_pictures, colour_model, tmp_path):
    model = colour_model.write_pb(tmp_path / "m.pb", weights=np.eye(3, dtype=np.float32))
    found = evaluate(model, colour_pictures)
    assert all((colour_pictures / name).is_file() for name in found.names)
    assert found.mistakes(1)[0]["path"].startswith(f"{colour_pictures}/")


def test_averages_that_lag_are_warned_of(colour_model, colours, tmp_path, heard):
    """Case W11."""
    run = colour_model.begin_run(tmp_path / "run", 20, ("Colour/BatchNorm/moving_mean",))
    # Red and green seem far below their averages: everything is called blue.
    colour_model.save(run, 20, mean=(9, 9, 0))
    found = evaluate(run, colours, progress=heard)
    assert found.accuracy == pytest.approx(found.confusion()[0, 0] / 16)
    assert (found.lag.count, found.lag.batch) == (16, 1.0)
    assert found.as_json()["averages_lag"]["gap"] == pytest.approx(1 - found.accuracy)
    assert (
        f"Warning: the moving averages of batch norm lag behind: of 16 pictures {found.lag}"
        in (heard.said[-1])
    )


def test_averages_that_keep_up_or_never_moved_are_not(colour_model, colours, tmp_path, heard):
    moved = colour_model.begin_run(tmp_path / "moved", 20, ("Colour/BatchNorm/moving_mean",))
    colour_model.save(moved, 20)
    frozen = colour_model.begin_run(tmp_path / "frozen", 20)
    colour_model.save(frozen, 20, mean=(9, 9, 0))
    for run in (moved, frozen):
        assert evaluate(run, colours, progress=heard).lag is None
    assert not any("Warning" in line for line in heard.said)


def test_batch_statistics_tell_the_gap(colour_model, run, colours, heard):
    """Case W11."""
    colour_model.save(run, 30, mean=(9, 9, 0))
    found = evaluate(run, colours, batch_statistics=True, progress=heard)
    assert (found.accuracy, found.statistics) == (1.0, "batch")
    assert found.lag.moving_averages == evaluate(run, colours).accuracy < 0.5
    assert heard.said[-1] == f"{found.lag}, over 16 pictures a batch."


def test_batch_statistics_of_a_model_without_batch_norms_are_refused(
    colour_model, colours, tmp_path
):
    import exporters

    lite = exporters.convert(colour_model.write_pb(tmp_path / "m.pb"), tmp_path / "m.tflite").path
    with pytest.raises(UnsupportedError, match="has no batch norms") as caught:
        evaluate(lite, colours, batch_statistics=True)
    assert caught.value.next_step == "Evaluate the run that it was made from."


def test_batches_are_as_equal_as_can_be():
    assert [equal_batches(count, 32) for count in (1, 32, 33, 64, 65, 100)] == [
        1,
        32,
        17,
        32,
        22,
        25,
    ]


def test_swapped_words_are_told_apart(run, colours, colour_pictures):
    for data in (colours, colour_pictures):
        with pytest.raises(UsageError, match="MODEL and DATA are swapped") as caught:
            evaluate(data, run)
        assert caught.value.next_step == f"Name {run} first, then {data}."


def test_edited_labels_are_noticed(run, heard):
    (run / "labels.txt").write_text("blue\nverde\nred\n")
    assert open_model(run, progress=heard).classes == ("blue", "green", "red")
    assert "  line 2: 'verde' in the place of 'green'" in heard.said[-1]
    assert heard.said[-1].endswith(f"slimtune convert {run} model.pb --labels {run}/labels.txt")


def test_classes_that_the_model_does_not_know(colour_model, colours, tmp_path):
    colour_model.classes = ("blue", "lime", "red")
    with pytest.raises(DataError, match="does not know 1 classes") as caught:
        evaluate(colour_model.write_pb(tmp_path / "m.pb"), colours)
    assert "  green" in caught.value.message


def test_an_idx_directory_brings_its_own_test_pictures(tmp_path, colours):
    dataset = read_dataset(colours)
    for name in ("images-idx3", "labels-idx1"):
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(b"")
    assert default_split(tmp_path, dataset) == "test"
    assert default_split(colours, dataset) == default_split(dataset, dataset) == "val"


def test_a_class_before_those_of_the_data_counts(colour_model, colours, tmp_path):
    colour_model.classes, colour_model.label_offset = (), 1
    weights = np.hstack([np.zeros((3, 1), np.float32), colour_model.RIGHT])
    found = evaluate(colour_model.write_pb(tmp_path / "m.pb", weights=weights), colours)
    assert found.classes == ("background", "blue", "green", "red")
    assert found.confusion().diagonal().tolist() == found.confusion().sum(axis=1).tolist()
    assert found.per_class()[0]["count"] == 0


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, "3: the data's 3"), (1, "4: the data's 3 and 1 before them")]
)
def test_the_record_of_published_weights_says_whether_a_background_comes_first(
    colours, tiny_checkpoint, monkeypatch, offset, expected
):
    """Case R8: published weights of 1000 classes, and of 1001."""
    published = replace(get_checkpoint("vgg_16"), name="tiny", net="tiny", label_offset=offset)
    monkeypatch.setitem(CHECKPOINTS, "tiny", published)
    monkeypatch.setattr("finetune.weights._published_path", lambda *arguments: tiny_checkpoint)
    with pytest.raises(DataError) as caught:
        evaluate("tiny", colours, net="tiny")
    assert (caught.value.expected, caught.value.received) == (expected, "7 in the model")
    known = [get_checkpoint(name) for name in ("vgg_16", "inception_v3")]
    assert [(one.classes, one.label_offset) for one in known] == [(1000, 0), (1001, 1)]


def test_a_dataset_without_pictures_held_out_names_its_splits(colours):
    dataset = read_dataset(colours)
    dataset = replace(dataset, splits={"train": dataset.splits["train"]})
    with pytest.raises(NotFoundError, match="no pictures held out") as caught:
        default_split(dataset, dataset)
    assert caught.value.received == "train"
    assert "--split (train)" in caught.value.next_step
