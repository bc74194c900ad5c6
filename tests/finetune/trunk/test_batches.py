"""Training on features: the same as on pictures, stored once, shared, and held to a limit."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

import checkpoints
from checkpoints.errors import RunError
from exporters.graph import read_graph
from finetune import TrainConfig, evaluate, train
from finetune.training import head_start
from finetune.training import trainer as trainers
from finetune.trunk import store as stores

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


@pytest.fixture
def fit(colours, tmp_path, tiny_checkpoint, heard):
    def fit(name, **options):
        defaults = {
            "data": str(colours),
            "net": "tiny",
            "checkpoint": str(tiny_checkpoint),
            "batch_size": 8,
            "steps": 4,
            "learning_rate": 0.05,
            "dropout": 0.0,
            "precision": "fp32",
            "eval_every": 4,
        }
        run = tmp_path / name
        train(TrainConfig(run=str(run), **{**defaults, **options}), progress=heard)
        return run

    return fit


def told(heard):
    """What the last run said of its features."""
    return [line for line in heard.said if line.startswith("Steps run on features")][-1]


def assert_same(one, other, rtol=0.0, atol=0.0):
    found = checkpoints.diff(one, other, rtol=rtol, atol=atol)
    assert found.is_equal, found.as_json()


def assert_near(one, other):
    """The same but for roundings: kernels of some processors add in another order in other batches."""
    assert_same(one, other, rtol=1e-3, atol=1e-7)


def shards(cache):
    return sorted(cache.glob(f"*/*{stores.SUFFIX}"))


def test_stored_features_and_the_trunk_each_step_give_the_same_run(fit, heard):
    stored = fit("stored")
    assert "stored for 44 pictures" in told(heard)
    assert "0 were there, 44 computed" in told(heard)
    streamed = fit("streamed", cache="off")
    assert told(heard).endswith("the trunk computes them for each step, as --cache off asks.")
    assert_near(stored, streamed)


def test_a_second_run_finds_the_features_of_the_first(fit, heard, cache):
    one = fit("one")
    before = {file: file.stat().st_mtime_ns for file in shards(cache)}
    other = fit("other", seed=0)
    assert "44 were there, 0 computed" in told(heard)
    assert {file: file.stat().st_mtime_ns for file in shards(cache)} == before
    assert_same(one, other)


def test_a_picture_replaced_under_its_name_is_computed_again_and_no_other(
    fit, heard, colour_pictures, tmp_path
):
    """Case D8."""
    pictures = tmp_path / "pictures"
    shutil.copytree(colour_pictures, pictures)
    fit("one", data=str(pictures))
    count = int(told(heard).partition("0 were there, ")[2].split()[0])
    dataset = tmp_path / "one-data"
    changed = 4
    # The split goes by content: a new picture may belong to another one.
    for number in range(changed):
        grey = np.full((20, 20, 3), 40 + number, np.uint8)
        Image.fromarray(grey).save(pictures / "red" / f"{number}.png")
    shutil.rmtree(dataset)
    fit("two", data=str(pictures))
    computed = int(told(heard).partition(" were there, ")[2].split()[0])
    assert 0 < computed <= changed < count


def test_other_weights_and_another_preprocessing_share_nothing(
    fit, heard, cache, tiny_checkpoint, tmp_path
):
    """Case D8."""
    fit("one")
    fit("smaller", image_size=12)
    assert "0 were there" in told(heard)
    with checkpoints.open(tiny_checkpoint) as saved:
        values = {name: saved[name] for name in saved}
    values["Tiny/Conv2d_10/weights"] = values["Tiny/Conv2d_10/weights"] * np.float32(1.5)
    checkpoints.write(tmp_path / "other.ckpt", values)
    fit("other", checkpoint=str(tmp_path / "other.ckpt"))
    assert "0 were there" in told(heard)
    assert len(list(cache.iterdir())) == 3


def test_a_block_that_trains_is_fed_from_before_it_and_the_rest_stays_bit_equal(
    fit, heard, tiny_checkpoint
):
    scopes = ("Tiny/Conv2d_10", "Tiny/Logits")
    stored = fit("stored", trainable=scopes)
    assert "512 numbers a picture (Tiny/Conv2d_1/Relu" in told(heard)
    assert_near(stored, fit("streamed", trainable=scopes, cache="off"))
    with checkpoints.open(tiny_checkpoint) as source, checkpoints.open(stored) as trained:
        changed = {n for n in source if trained[n].tobytes() != source[n].tobytes()}
        assert not any(name.startswith("Tiny/Conv2d_1/") for name in changed)
        assert {
            "Tiny/Conv2d_10/weights",
            "Tiny/Conv2d_10/BatchNorm/beta",
            "Tiny/Conv2d_10/BatchNorm/moving_mean",
        } <= changed


def test_views_are_stored_and_shown_in_turn_however_they_are_computed(fit, heard):
    stored = fit("stored", views=3, steps=14)
    assert "stored for 44 pictures in 3 views" in told(heard)
    assert "132 computed" in told(heard)
    assert_near(stored, fit("streamed", views=3, steps=14, cache="off"))
    with checkpoints.open(stored) as one, checkpoints.open(fit("plain", steps=14)) as other:
        name = "Tiny/Logits/fc/weights"
        assert one[name].tobytes() != other[name].tobytes()


def test_going_on_with_features_equals_not_stopping_bit_for_bit(fit):
    whole = fit("whole", steps=9)
    parts = fit("parts", steps=4)
    fit("parts", steps=9, resume=True, dropout=None, precision="auto", eval_every=None)
    assert_same(whole, parts)


def test_too_little_room_is_told_and_the_trunk_computes_each_step(fit, heard, cache, monkeypatch):
    stored = fit("stored")
    shutil.rmtree(cache)
    monkeypatch.setenv(stores.LIMIT_VARIABLE, "0.000001")
    assert_near(stored, fit("streamed"))
    assert "MB are more than there is room for" in told(heard)
    assert not shards(cache)
    with pytest.raises(RunError, match="Features of 44 pictures cannot be stored"):
        fit("refused", cache="on")


def test_a_full_disk_is_told_and_the_trunk_computes_each_step(fit, heard, cache, monkeypatch):
    def full(*arguments, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores.FeatureStore, "write", full)
    fit("streamed")
    assert "more than the disk has room for" in told(heard)


def test_pictures_distorted_anew_each_time_are_not_stored(fit, heard, cache):
    fit("anew", augment="full")
    assert told(heard).endswith("for --augment distorts anew.")
    assert not shards(cache)
    with pytest.raises(RunError, match="cannot be stored") as caught:
        fit("refused", augment="fast", cache="on")
    assert "--views" in caught.value.next_step


def test_the_graph_beside_the_checkpoint_is_whole(fit):
    run = fit("one")
    graph = read_graph(run / "model.ckpt-4.meta")
    assert "features" not in graph.nodes
    assert "IteratorGetNext" in graph.ancestors(["train"])


def test_a_head_starts_from_ridge_regression_unless_told_not_to(fit, heard):
    def first_accuracy(run):
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return json.loads(lines[0])["batch_accuracy"]

    said = "The head starts from ridge regression on 44 pictures"
    started = fit("started")
    assert sum(line.startswith(said) for line in heard.said) == 1
    plain = fit("plain", init="default")
    assert sum(line.startswith(said) for line in heard.said) == 1
    assert first_accuracy(started) == 1.0
    assert first_accuracy(plain) < 1.0
    with pytest.raises(RunError, match="needs a new linear head"):
        fit("refused", init="prototypes", trainable=("Tiny/Conv2d_10", "Tiny/Logits"))


@pytest.mark.parametrize("store", ["auto", pytest.param("off", marks=pytest.mark.long)])
def test_a_head_starts_from_so_many_pictures_as_memory_is_meant_for(fit, heard, monkeypatch, store):
    drawn = []

    def note(features, labels, classes):
        drawn.append((features, labels))
        return head_start.HeadStart(
            np.zeros((features.shape[1], classes), np.float32), np.zeros(classes, np.float32), 0, 1
        )

    monkeypatch.setattr(head_start, "fit_head", note)
    fit("all", cache=store)
    channels = drawn[0][0].shape[1]
    monkeypatch.setattr(head_start, "MAX_NUMBERS", 20 * channels + 1)
    fit("some", cache=store)
    monkeypatch.setattr(head_start, "MAX_NUMBERS", 11 * channels)
    fit("random", cache=store)
    said = "starts at random: of 44 pictures ridge regression would take 11, too few of 3 classes"
    assert any(said in line for line in heard.said)
    (every, labels), (some, theirs) = drawn
    assert (len(every), len(some)) == (44, 20)
    nearest = [int(np.abs(every - row).max(axis=1).argmin()) for row in some]
    assert nearest == sorted(set(nearest))
    np.testing.assert_allclose(some, every[nearest], rtol=1e-4, atol=1e-6)
    assert labels[nearest].tolist() == theirs.tolist()
    assert any("ridge regression on 20 pictures" in line for line in heard.said)


def test_evaluations_between_steps_run_the_head_alone_and_say_what_the_net_says(
    fit, colours, monkeypatch
):
    seen, whole = [], []

    def on_features(*arguments):
        seen.append(real(*arguments))
        return seen[-1]

    def on_pictures(*arguments, **named):
        whole.append(evaluate(*arguments, **named))
        return whole[-1]

    real = trainers.evaluate_on_features
    monkeypatch.setattr(trainers, "evaluate_on_features", on_features)
    monkeypatch.setattr(trainers, "evaluate", on_pictures)
    run = fit("run", eval_every=2, init="default")
    assert ([found.step for found in seen], [found.step for found in whole]) == ([2], [4])
    expected = evaluate(run / "model.ckpt-2", colours, split="val")
    assert seen[0].names == expected.names
    np.testing.assert_array_equal(seen[0].labels, expected.labels)
    np.testing.assert_allclose(seen[0].probabilities, expected.probabilities, atol=1e-5)
    assert seen[0].count == 16
