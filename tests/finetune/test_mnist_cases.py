"""The cases of `slimtune mnist`: their options, their runs, and how well they read digits."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import checkpoints
import finetune
from checkpoints.errors import GraphError, NotFoundError, RunError, UsageError
from checkpoints.messages import GraphDef
from checkpoints.progress import Notes
from exporters.names import METADATA_NODE
from finetune import mnist_cases
from finetune.foreign_graph import Description
from finetune.run import Run

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """A run of the case softmax on digits that it draws itself; what it came to, and said."""
    notes = Notes()
    run = tmp_path_factory.mktemp("digits") / "softmax"
    return finetune.mnist("softmax", run, steps=300, progress=notes), notes.lines


@pytest.fixture(scope="module")
def read(offline):
    """What that run came to."""
    return offline[0]


@pytest.fixture(scope="module")
def digits(read):
    """The dataset that was built of the digits."""
    return Path(read.data)


class StoppedError(Exception):
    pass


@pytest.fixture
def begun(monkeypatch, digits, tmp_path):
    """What train is told for a case, and nothing trained."""

    def begun(case, **options):
        told = []

        def train(config, **_):
            told.append(config)
            raise StoppedError

        monkeypatch.setattr(mnist_cases, "train", train)
        with pytest.raises(StoppedError):
            finetune.mnist(case, tmp_path / "run", data=digits, **options)
        return told[0]

    return begun


def test_the_options_of_the_cases(begun):
    softmax, mlp, lenet = map(begun, ["softmax", "mlp", "lenet"])
    for name, config in {"softmax": softmax, "mlp": mlp, "lenet": lenet}.items():
        assert (config.net, config.checkpoint) == (f"mnist_{name}", "none")
        assert (config.trainable, config.augment, config.weight_decay) == (("all",), "none", 0)
        assert (config.schedule, config.seed, config.init) == ("fixed", 0, "default")
    named = ("optimizer", "learning_rate", "batch_size", "steps")
    found = [tuple(getattr(one, name) for name in named) for one in (softmax, mlp, lenet)]
    assert found == [
        ("sgd", 0.5, 100, 5_000),
        ("adam", 0.001, 100, 30_000),
        ("adam", 0.0001, 50, 20_000),
    ]
    assert (mlp.eval_every, lenet.dropout, lenet.ema) == (1_000, 0.5, 0.999)
    assert [one.precision for one in (softmax, mlp, lenet)] == ["fp32", "fp32", "auto"]


def test_what_is_given_goes_before_the_cases_own(begun):
    config = begun(
        "lenet",
        steps=7,
        schedule="exponential",
        decay_steps=3,
        decay_rate=0.5,
        staircase=True,
        seed=None,
    )
    assert (config.steps, config.schedule, config.decay_steps) == (7, "exponential", 3)
    assert (config.decay_rate, config.staircase, config.seed) == (0.5, True, 0)
    assert config.learning_rate == 0.0001


def test_what_is_refused(tmp_path, digits):
    run = tmp_path / "run"
    with pytest.raises(UsageError, match="There is no case 'letters'"):
        finetune.mnist("letters", run)
    with pytest.raises(UsageError, match="--steps: expected a whole number from 1"):
        finetune.mnist("softmax", run, steps=0)
    with pytest.raises(RunError, match=r"There is no run in .*run to go on with"):
        finetune.mnist("softmax", run, resume=True)
    # Nothing was drawn for what was not begun.
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError, match="nowhere is not there"):
        finetune.mnist("softmax", run, data=tmp_path / "nowhere")


@pytest.fixture
def run(read, digits, tmp_path):
    """A copy of the run in another place, which names its dataset."""
    run = tmp_path / "run"
    shutil.copytree(read.run, run)
    change_config(run, data=str(digits))
    return run


def change_config(run, **changes):
    config = json.loads((run / "config.json").read_text())
    changed = {name: value for name, value in {**config, **changes}.items() if value is not None}
    (run / "config.json").write_text(json.dumps(changed))


def test_a_finished_run_says_so_and_gets_again_what_it_lacks(run, read, heard):
    (run / "model.pb").unlink()
    again = finetune.mnist("softmax", run, progress=heard)
    assert any("is finished: 300 of 300 steps" in line for line in heard.said)
    assert (again.accuracy, again.step) == (read.accuracy, 300)
    assert (run / "model.pb").read_bytes() == Path(read.model).read_bytes()
    with pytest.raises(RunError, match="--net: the run has mnist_softmax, received mnist_mlp"):
        finetune.mnist("mlp", run)
    with pytest.raises(RunError, match="--steps: the run has 300, received 5"):
        finetune.mnist("softmax", run, steps=5)


def test_a_run_goes_on_with_the_options_it_was_begun_with(run, read, digits, heard):
    change_config(run, ended_at=None)
    with pytest.raises(RunError, match=r"unfinished run(.|\n)*--resume"):
        finetune.mnist("softmax", run)
    on = finetune.mnist("softmax", run, resume=True, steps=310, progress=heard)
    assert "Changed on resuming: --steps: 310, was 300." in heard.said
    assert (on.step, on.data) == (310, str(digits))
    stored = Run(run).read_config()
    assert (stored.optimizer, stored.learning_rate, stored.batch_size) == ("sgd", 0.5, 100)
    assert Path(on.model).read_bytes() != Path(read.model).read_bytes()


def test_overwriting_begins_with_the_cases_options_again(run, digits):
    # A model of the old run must not outlive it.
    with pytest.raises(UsageError, match="--learning-rate"):
        finetune.mnist("mlp", run, data=digits, overwrite=True, learning_rate=-1.0)
    assert (run / "model.pb").is_file()
    other = finetune.mnist(
        "mlp", run, data=digits, steps=3, schedule="exponential", decay_steps=1, overwrite=True
    )
    assert (other.case, other.step) == ("mlp", 3)
    assert sorted(path.name for path in run.glob("model.ckpt-*.meta")) == ["model.ckpt-3.meta"]
    with checkpoints.open(run) as saved:
        assert saved["MnistMlp/layer1/weights"].shape == (784, 50)
    (first, *_, last, _) = Run(run).read_metrics()
    assert first["learning_rate"] == pytest.approx(0.001)
    assert last["learning_rate"] == pytest.approx(0.001 * 0.94**2)


KEYS = {
    *("case", "run", "data", "step", "validation_accuracy", "accuracy", "split", "count"),
    *("model", "verification", "predictions", "report"),
}


def test_the_verb(slimtune, read, digits):
    run = read.run
    words = ("mnist", "softmax", "--run", run, "--data", digits, "--steps", 300)
    code, out, err = slimtune(*words, "--json")
    found = json.loads(out)
    assert (code, set(found), "is finished: 300 of 300 steps" in err) == (0, KEYS, True)
    assert found == read.as_json()
    assert (found["step"], found["split"], found["count"]) == (300, "test", 1000)
    assert found["verification"]["passed"]
    assert [p["path"] for p in found["predictions"]] == [
        f"{run}/digits/{digit}.png" for digit in range(10)
    ]
    code, out, _ = slimtune(*words)
    assert code == 0
    assert f"Accuracy      {found['accuracy']:.2%} of 1000 test pictures, after step 300\n" in out
    assert f"Frozen graph  {run}/model.pb, verified (structure)\n" in out
    assert f"Next: slimtune predict {run}/model.pb {run}/digits\n" in out
    assert f"  or  slimtune evaluate {run}/model.pb {digits} --split test\n" in out
    code, _, err = slimtune("mnist", "softmax")
    assert (code, "Missing option '--run'" in err) == (2, True)


def test_the_pictures_of_a_run_and_what_other_verbs_say_of_them(slimtune, read, digits):
    run = Path(read.run)
    right = [p["classes"][0]["label"] == str(digit) for digit, p in enumerate(read.predictions)]
    assert sum(right) >= 7
    with Image.open(run / "digits" / "3.png") as picture:
        assert (picture.size, picture.mode) == ((28, 28), "L")
    code, out, _ = slimtune("predict", run / "model.pb", run / "digits", "--top", "3", "--json")
    assert (code, json.loads(out)["predictions"]) == (0, read.predictions)
    code, out, _ = slimtune("evaluate", run, digits, "--split", "test", "--json")
    assert (code, json.loads(out)["accuracy"]) == (0, read.accuracy)
    page = (run / "report.html").read_text()
    assert "digits/3.png" in page


def test_arrays_for_a_net_of_one_channel(slimtune, read, tmp_path):
    run = Path(read.run)
    signature = json.loads((run / "signature.json").read_text())
    assert signature["inputs"][0]["shape"] == [None, 28, 28, 1]
    random = np.random.default_rng(1)
    np.save(tmp_path / "one.npy", random.random((2, 28, 28, 1), np.float32))
    np.save(tmp_path / "three.npy", random.random((2, 28, 28, 3), np.float32))
    assert len(finetune.predict(run, [tmp_path / "one.npy"])) == 2
    code, _, err = slimtune("predict", run, tmp_path / "three.npy")
    assert code == 1
    assert "numbers [28, 28, 1] or [count, 28, 28, 1]" in err


def test_the_frozen_graph_is_a_net_again_and_the_graph_of_a_stranger(read, digits, tmp_path):
    options = {"steps": 60, "learning_rate": 0.01, "precision": "fp32"}
    run = str(tmp_path / "again")
    # Its bottleneck is the pixels, on which a new head learns as the first one did.
    config = finetune.TrainConfig(data=str(digits), run=run, net=read.model, **options)
    assert finetune.train(config).accuracy > 0.6
    message = GraphDef.FromString(Path(read.model).read_bytes())
    kept = [node for node in message.node if node.name != METADATA_NODE]
    stranger = tmp_path / "stranger.pb"
    stranger.write_bytes(GraphDef(node=kept, versions=message.versions).SerializeToString())
    found = finetune.evaluate(stranger, digits, split="test", description=Description("grey"))
    assert found.accuracy == read.accuracy
    with pytest.raises(GraphError, match="does not say where pictures go in") as caught:
        finetune.evaluate(stranger, digits, description=Description("lenet"))
    assert "[?, size, size, 3]" in caught.value.expected


def assert_frozen_answers_as_the_checkpoint(result, count):
    """The frozen graph says of each test picture what its checkpoint says, to the bit."""
    frozen, checkpoint = (
        finetune.evaluate(model, result.data, split="test") for model in (result.model, result.run)
    )
    assert frozen.count == count
    assert frozen.names == checkpoint.names
    np.testing.assert_array_equal(frozen.probabilities, checkpoint.probabilities)
    assert frozen.accuracy == checkpoint.accuracy == result.accuracy


def test_drawn_digits_are_read_offline(offline):
    result, said = offline
    (line,) = [line for line in said if line.startswith("No --data: digits are drawn, offline")]
    assert f"{result.run}-digits" in line
    assert "Pictures are decoded once and held in memory, 14.4 MB." in said
    assert (result.count, result.split) == (1000, "test")
    assert result.accuracy > 0.95
    assert_frozen_answers_as_the_checkpoint(result, 1000)


@pytest.mark.long
def test_lenet_reads_drawn_digits(digits, tmp_path):
    result = finetune.mnist("lenet", tmp_path / "run", data=digits, steps=40, learning_rate=0.001)
    assert result.accuracy > 0.9
    assert_frozen_answers_as_the_checkpoint(result, 1000)


@pytest.fixture(scope="module")
def real(shared, tmp_path_factory):
    """The dataset built of MNIST's four files."""
    out = tmp_path_factory.mktemp("mnist") / "mnist-data"
    finetune.data.build(shared / "data/mnist", out)
    return out


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "accuracy", "options"),
    [
        ("softmax", 0.918, {}),
        ("mlp", 0.970, {}),
        # As many steps as 60,000 pictures have batches, so few that they want a higher rate.
        ("lenet", 0.985, {"steps": 1_200, "learning_rate": 0.001, "schedule": "cosine"}),
    ],
)
def test_mnist_is_read(case, accuracy, options, real, tmp_path):
    result = finetune.mnist(case, tmp_path / "run", data=real, **options)
    assert result.accuracy >= accuracy
    assert_frozen_answers_as_the_checkpoint(result, 10_000)
