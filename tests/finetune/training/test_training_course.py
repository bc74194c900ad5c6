"""How a run goes: phases, averages, patience, what is frozen in every regime, what may change."""

import json
import sys
import types

import numpy as np
import pytest
from PIL import Image

import checkpoints
import exporters
from checkpoints.errors import DataError, RunError, UsageError
from checkpoints.scopes import in_scopes
from exporters.constants import constant_value
from exporters.graph import read_graph
from finetune import TrainConfig, train
from finetune.datasets.build import build
from finetune.run import Run
from finetune.training import trainer

pytestmark = pytest.mark.tensorflow

AVERAGE = "/ExponentialMovingAverage"


def config(colours, run, **options):
    defaults = {"net": "tiny", "batch_size": 8, "steps": 2, "learning_rate": 0.05}
    return TrainConfig(data=str(colours), run=str(run), **{**defaults, **options})


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run"


def changed(before, after):
    """Names of the variables of a checkpoint whose bytes another has differently."""
    with checkpoints.open(before) as source, checkpoints.open(after) as trained:
        shared = [name for name in source if name in trained and "global_step" not in name]
        assert shared
        return {
            name
            for name in shared
            if source[name].shape != trained[name].shape
            or source[name].tobytes() != trained[name].tobytes()
        }


@pytest.fixture
def validation(monkeypatch):
    """Replaces the accuracy of each evaluation by the next of a list."""

    def script(accuracies):
        scores = iter(accuracies)
        original = trainer.evaluate

        def evaluate(*arguments, **named):
            found = original(*arguments, **named)
            accuracy = next(scores)
            return types.SimpleNamespace(
                accuracy=accuracy, count=found.count, as_json=found.as_json, lag=None
            )

        monkeypatch.setattr(trainer, "evaluate", evaluate)
        # Between steps the head alone would be evaluated, on stored features.
        monkeypatch.setattr(trainer, "evaluate_on_features", lambda *arguments: None)

    return script


@pytest.mark.parametrize(
    ("options", "trained"),
    [
        ({}, ("Tiny/Logits",)),
        ({"trainable": ("Tiny/Logits", "Tiny/Conv2d_10")}, ("Tiny/Logits", "Tiny/Conv2d_10")),
        ({"unfreeze_at": ("100:Tiny/Conv2d_10",)}, ("Tiny/Logits", "Tiny/Conv2d_10")),
    ],
    ids=["head", "head and last block", "unfrozen"],
)
def test_frozen_variables_are_bit_equal_after_200_steps(
    colours, run, tiny_checkpoint, options, trained
):
    options = {"ema": 0.9, "steps": 200, "batch_size": 4, "eval_every": 100, **options}
    result = train(config(colours, run, checkpoint=str(tiny_checkpoint), **options))
    moved = changed(tiny_checkpoint, run)
    assert {"/".join(name.split("/")[:2]) for name in moved} == {*trained, "Tiny/AuxLogits"}
    trained_names = {name for name in moved if "AuxLogits" not in name}
    if len(trained) == 2:
        # A head has learned from the averages of what begins to train after it.
        averages_move = "unfreeze_at" not in options
        assert ("Tiny/Conv2d_10/BatchNorm/moving_mean" in trained_names) == averages_move
    assert result.frozen_verified == 10 - sum("Conv2d_10" in name for name in trained_names)
    with checkpoints.open(run) as saved:
        averaged = {name.removesuffix(AVERAGE) for name in saved if name.endswith(AVERAGE)}
        assert averaged == {name for name in trained_names if "moving" not in name}


@pytest.mark.long
@pytest.mark.parametrize("cache", ["auto", "off"])
def test_inception_v3_with_mixed_7_and_its_heads_leaves_the_rest_bit_equal(
    colours, run, tmp_path, cache
):
    from exporters.runtime import load_tensorflow
    from finetune.nets import build_net

    v1 = load_tensorflow().compat.v1
    checkpoint = tmp_path / "weights" / "inception.ckpt"
    with v1.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(11)
        build_net("inception_v3", v1.placeholder(v1.float32, [None, 139, 139, 3]), 7)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(checkpoint), write_meta_graph=False)
    blocks = tuple(f"InceptionV3/Mixed_7{letter}" for letter in "abc")
    heads = ("InceptionV3/Logits", "InceptionV3/AuxLogits")
    options = {
        "net": "inception_v3",
        "checkpoint": str(checkpoint),
        "image_size": 139,
        "trainable": ("heads", *blocks),
        "steps": 4,
        "batch_size": 4,
        "cache": cache,
    }
    result = train(config(colours, run, **options))
    moved = changed(checkpoint, run)
    assert {"/".join(name.split("/")[:2]) for name in moved} == {*blocks, *heads}
    assert {name.rpartition("/")[2] for name in moved} >= {"moving_mean", "moving_variance"}
    with checkpoints.open(checkpoint) as source:
        frozen = [name for name in source if not in_scopes(name, (*blocks, *heads))]
    assert not moved.intersection(frozen)
    assert len([name for name in frozen if name.endswith("moving_mean")]) > 60
    assert result.frozen_verified == len(frozen)


def test_a_head_on_data_of_another_mean_leaves_the_averages_of_the_body(
    run, tiny_checkpoint, tmp_path
):
    """Case W4."""
    for name, level in (("dark", 10), ("bright", 245)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((20, 20, 3), level + number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    build(tmp_path / "pictures", tmp_path / "data", val=0.0)
    train(config(tmp_path / "data", run, checkpoint=str(tiny_checkpoint), steps=20))
    assert not [name for name in changed(tiny_checkpoint, run) if "Logits" not in name]


def test_the_second_phase_starts_from_the_first_with_a_fresh_optimiser(
    colours, tmp_path, tiny_checkpoint, heard
):
    options = {"checkpoint": str(tiny_checkpoint), "eval_every": 100, "dropout": 0.0}
    train(config(colours, tmp_path / "one", steps=3, **options))
    # A factor of scopes that do not train in the first phase yet.
    options["learning_rate_factors"] = ("Tiny/Conv2d_10=0.5",)
    train(
        config(colours, tmp_path / "two", steps=5, unfreeze_at=("3:all",), **options),
        progress=heard,
    )
    lines = [line for line in heard.said if line.startswith(("Phase", "Step "))]
    assert lines[:4] == [
        "Phase 1 of 2, from step 1 on, trains Tiny/Logits: 2 variables, 51 parameters.",
        "Phase 2 of 2, from step 4 on, also trains Tiny: 6 more variables, 1,419 more parameters.",
        "Phase 1 of 2, steps 1 to 3. Learning rate 0.05, fixed, for 3 steps.",
        "Phase 2 of 2, steps 4 to 5. Learning rate 0.0005, fixed, for 2 steps.",
    ]
    assert lines[4].startswith("Step 3 of 5: ") and lines[5] == "Phase 2 of 2 begins."
    boundary = tmp_path / "two" / "model.ckpt-3"
    with checkpoints.open(tmp_path / "one") as one, checkpoints.open(boundary) as saved:
        assert list(one) == list(saved)
        assert all(one[name].tobytes() == saved[name].tobytes() for name in one)
    with checkpoints.open(tmp_path / "two") as two:
        # Adam's power of 0.9 counts the steps of its own phase.
        assert two["beta1_power"] == pytest.approx(0.9**3)
        assert two["global_step"] == 5
    plan = json.loads((tmp_path / "two" / "plan.json").read_text())
    assert (plan["phase"], plan["trainable"]) == (2, ["Tiny"])
    assert [phase["last"] for phase in plan["phases"]] == [3, 5]


@pytest.mark.parametrize(
    "options",
    [
        {"unfreeze_at": ("1:Tiny/Conv2d_11",)},
        {"learning_rate_factors": ("Tiny/Conv2d_11=2",)},
        {"learning_rate_factors": ("Tiny/Conv2d_1=2",)},  # It does not train.
    ],
)
def test_a_scope_that_matches_nothing_is_found_before_the_first_step(
    colours, run, tiny_net, options
):
    with pytest.raises(checkpoints.errors.PlanError, match="Tiny/Conv2d_1"):
        train(config(colours, run, checkpoint="none", **options))
    assert not run.exists()


def test_evaluation_and_export_take_the_averages_of_the_weights(colours, run, tiny_net, heard):
    train(config(colours, run, checkpoint="none", ema=0.5, steps=6, trainable=("all",)))
    done = exporters.convert(run, run.parent / "m.pb", progress=heard)
    assert done.verification.passed
    assert any(line.startswith("Weights: ema, the averages of") for line in heard.said)
    weights = "Tiny/Logits/fc/weights"
    exported = constant_value(read_graph(run.parent / "m.pb").nodes[weights])
    with checkpoints.open(run) as saved:
        np.testing.assert_array_equal(exported, saved[weights + AVERAGE])
        assert (saved[weights] != saved[weights + AVERAGE]).any()
    stored = json.loads((run / "evaluation.json").read_text())
    from finetune import evaluate

    assert evaluate(run.parent / "m.pb", colours).as_json()["confusion"] == stored["confusion"]


def test_training_stops_after_patience_evaluations_without_a_better_one(
    colours, run, tiny_net, heard, validation
):
    validation([0.5, 0.75, 0.75, 0.7, 0.9, 0.9, 0.9, 0.8])
    options = {"checkpoint": "none", "steps": 9, "eval_every": 1}
    result = train(config(colours, run, patience=2, **options), progress=heard)
    assert (result.step, result.best_accuracy, Run(run).best_step()) == (4, 0.75, 2)
    assert (
        "Stopped: 2 evaluations without a better one than 75.0%, which is kept in best/."
        in heard.said
    )
    assert train(config(colours, run, patience=2, **options)).finished_before
    longer = train(config(colours, run, **options, patience=3, resume=True))
    assert (longer.step, longer.best_accuracy) == (8, 0.9)


def test_the_best_of_eight_survives_and_so_does_a_foreign_file(colours, run, tiny_net, validation):
    """Case P6."""
    validation([0.1, 0.9, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    options = {"checkpoint": "none", "eval_every": 1, "keep": 3}
    train(config(colours, run, steps=1, **options))
    (run / "model.ckpt-1.notes").write_text("mine")
    train(config(colours, run, steps=8, resume=True, **options))
    assert sorted(path.name for path in run.glob("*.index")) == [
        "model.ckpt-6.index",
        "model.ckpt-7.index",
        "model.ckpt-8.index",
    ]
    assert (run / "model.ckpt-1.notes").read_text() == "mine"
    assert checkpoints.open(run / "best").family.step == 2
    assert json.loads((run / "best" / "best.json").read_text()) == {"step": 2, "accuracy": 0.9}


def test_what_changed_on_resuming_is_listed_and_other_options_are_refused(
    colours, run, tiny_net, heard
):
    train(config(colours, run, checkpoint="none"))
    with pytest.raises(RunError) as caught:
        train(config(colours, run, steps=4, hidden=(3,), ema=0.9, dropout=0.3, resume=True))
    for line in (
        "--hidden: the run has none, received 3",
        "--ema: the run has none, received 0.9",
        "--dropout: the run has none, received 0.3",
    ):
        assert line in caught.value.message
    train(config(colours, run, steps=4, learning_rate=0.01, keep=5, resume=True), progress=heard)
    assert (
        "Changed on resuming: --steps: 4, was 2; --learning-rate: 0.01, was 0.05; --keep: 5, was 3."
        in heard.said
    )
    assert not [line for line in heard.said if "other pictures" in line]


def test_going_on_with_other_pictures_is_said(colours, run, tiny_net, tmp_path, heard):
    pictures = tmp_path / "pictures"
    for name in ("red", "green", "blue"):
        (pictures / name).mkdir(parents=True)
        for number in range(4):
            pixels = np.full((16, 16, 3), len(name) * 20 + number, np.uint8)
            Image.fromarray(pixels).save(pictures / name / f"{number}.png")
    build(pictures, tmp_path / "data", val=0.0)
    train(config(colours, run, checkpoint="none"))
    train(config(tmp_path / "data", run, steps=3, resume=True), progress=heard)
    assert any(line.startswith(f"Warning: {tmp_path}/data holds other") for line in heard.said)


def test_five_pictures_in_batches_of_32_and_the_schedule_is_said_before_the_first_step(
    run, tiny_net, tmp_path, heard
):
    """Case W10."""
    for name in ("one", "two"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
    random = np.random.default_rng(1)
    for number in range(5):
        pixels = random.integers(0, 255, (16, 16, 3), np.uint8)
        folder = "one" if number < 3 else "two"
        Image.fromarray(pixels).save(tmp_path / "pictures" / folder / f"{number}.png")
    build(tmp_path / "pictures", tmp_path / "data", val=0.0)
    result = train(
        config(
            tmp_path / "data",
            run,
            checkpoint="none",
            steps=None,
            epochs=3,
            batch_size=32,
            schedule="exponential",
            staircase=True,
            decay_rate=0.5,
        ),
        progress=heard,
    )
    assert result.step == 3
    rates = [entry["learning_rate"] for entry in Run(run).read_metrics()]
    assert rates[0] == pytest.approx(0.05)
    line = "Learning rate 0.05, times 0.5 every 2 steps, in stairs: 0.025 at step 3."
    assert line in heard.said


def test_labels_one_to_three_of_three_classes_are_found_before_step_0(colours, run, tiny_net):
    """Case W7."""
    from finetune.datasets.records import make_example, parse_example, read_records, write_records

    shifted = run.parent / "shifted"
    shifted.mkdir()
    for file in colours.iterdir():
        if file.suffix != ".tfrecord":
            (shifted / file.name).write_bytes(file.read_bytes())
            continue
        examples = [parse_example(record) for record in read_records(file)]
        for example in examples:
            example["image/class/label"] = [example["image/class/label"][0] + 1]
        write_records(shifted / file.name, (make_example(example) for example in examples))
    with pytest.raises(DataError, match="do not name a class"):
        train(config(shifted, run, checkpoint="none"))
    assert not run.exists()


def test_class_weights_and_a_loss_of_ones_own_train(colours, run, tiny_net, monkeypatch):
    module = types.ModuleType("slimtune_own_loss")
    seen = {}

    def loss(labels, logits):
        from exporters.runtime import load_tensorflow

        tf = load_tensorflow()
        seen.update(labels=labels.dtype.name, shape=logits.shape.as_list())
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    module.loss = loss
    monkeypatch.setitem(sys.modules, "slimtune_own_loss", module)
    options = {
        "checkpoint": "none",
        "dropout": 0.0,
        "weight_decay": 0.0,
        "trainable": ("all",),
        "eval_every": 2,
    }
    own = train(config(colours, run, loss="slimtune_own_loss:loss", **options))
    plain = train(config(colours, run.parent / "plain", **options))
    assert own.loss == pytest.approx(plain.loss, rel=1e-6)
    assert seen == {"labels": "int64", "shape": [8, 3]}
    weights = run.parent / "weights.csv"
    weights.write_text("red,2\ngreen,2\nblue,2\n")
    doubled = train(
        config(colours, run.parent / "doubled", steps=1, class_weights=str(weights), **options)
    )
    single = train(config(colours, run.parent / "single", steps=1, **options))
    assert doubled.loss == pytest.approx(2 * single.loss, rel=1e-5)


def test_a_loss_of_ones_own_goes_with_neither_smoothing_nor_weights():
    with pytest.raises(UsageError, match="--loss: expected neither"):
        TrainConfig(data="d", run="r", loss="a:b", label_smoothing=0.1)


def test_a_second_trainer_on_the_same_run_is_refused(colours, run, tiny_net, heard):
    from finetune.training.run_lock import LOCK, run_lock

    with run_lock(run, heard):
        with pytest.raises(RunError, match="is in use: process"):
            train(config(colours, run, checkpoint="none"))
        assert [path.name for path in run.iterdir()] == [LOCK]
