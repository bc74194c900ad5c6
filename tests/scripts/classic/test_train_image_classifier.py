"""train_image_classifier: which options of training the old flags become, and what is refused."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from checkpoints.errors import NotFoundError
from finetune.config import TrainConfig
from finetune.datasets.dataset import read_dataset
from finetune.training import training
from scripts.classic import slim
from scripts.main import main

NAME = ("classic", "train_image_classifier")


@pytest.fixture
def converted(monkeypatch, tmp_path, colours):
    """Types the script with a training that does nothing; gives what it was to do, and stderr."""

    class StopError(Exception):
        pass

    told = []

    def remember(config, progress=None):
        told.append(config)
        raise StopError

    monkeypatch.setattr(training, "train", remember)

    def type_(*flags, run=None):
        with pytest.raises(StopError):
            main(
                [
                    *NAME,
                    f"--train_dir={run or tmp_path / 'run'}",
                    f"--dataset_dir={colours}",
                    *flags,
                ]
            )
        return told[-1]

    return type_


def test_without_flags_the_whole_net_trains_from_nothing_as_tf_slim_does(
    converted, colours, capsys
):
    config = converted()
    pictures = read_dataset(colours).split("train").count
    assert config == TrainConfig(
        data=str(colours),
        run=config.run,
        net="inception_v3",
        checkpoint="none",
        trainable=("all",),
        exclude=("none",),
        batch_size=32,
        optimizer="rmsprop",
        optimizer_options=("decay=0.9", "momentum=0.9", "epsilon=1.0"),
        learning_rate=0.01,
        schedule="exponential",
        decay_steps=int(pictures / 32 * 2),
        decay_rate=0.94,
        staircase=True,
        weight_decay=0.00004,
        augment="full",
        init="default",
        keep=5,
        save_seconds=600,
    )
    assert "training ends after ten epochs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "changes"),
    [
        (
            ["--checkpoint_path=m.ckpt", "--checkpoint_exclude_scopes=A/Logits, A/AuxLogits"],
            {"checkpoint": "m.ckpt", "exclude": ("A/Logits", "A/AuxLogits")},
        ),
        (["--trainable_scopes=A/Logits, A/B"], {"trainable": ("A/Logits", "A/B")}),
        (["--checkpoint_path=m.ckpt", "--ignore_missing_vars"], {"allow_missing": ".*"}),
        (["--ignore_missing_vars"], {"allow_missing": None}),
        (["--max_number_of_steps=7", "--batch_size=8"], {"steps": 7, "batch_size": 8}),
        (["--num_epochs_per_decay=1e307"], {"decay_steps": 2**31 - 1}),
        (["--train_image_size=149"], {"image_size": 149}),
        (
            ["--weight_decay=0", "--label_smoothing=0.1"],
            {"weight_decay": 0, "label_smoothing": 0.1},
        ),
        (["--moving_average_decay=0.999"], {"ema": 0.999}),
        (["--learning_rate_decay_type=fixed"], {"schedule": "fixed", "decay_steps": None}),
        (
            ["--learning_rate_decay_type=polynomial", "--num_epochs_per_decay=4", "--batch_size=6"],
            {"schedule": "polynomial", "decay_steps": 29, "end_learning_rate": 0.0001},
        ),
        (
            ["--learning_rate_decay_factor=0.5", "--num_epochs_per_decay=0.1"],
            {"decay_rate": 0.5, "decay_steps": 1, "staircase": True},
        ),
        (["--labels_offset=1"], {"label_offset": 1}),
        (["--save_interval_secs=60"], {"save_seconds": 60}),
        (
            ["--optimizer=sgd", "--learning_rate=0.1"],
            {"optimizer_options": (), "learning_rate": 0.1},
        ),
        (["--optimizer=momentum", "--momentum=0.8"], {"optimizer_options": ("momentum=0.8",)}),
        (
            ["--optimizer=adam", "--adam_beta2=0.9999999", "--opt_epsilon=1e-8"],
            {"optimizer_options": ("beta1=0.9", "beta2=0.9999999", "epsilon=1e-08")},
        ),
        (["--optimizer=adadelta"], {"optimizer_options": ("rho=0.95", "epsilon=1.0")}),
        (["--optimizer=adagrad"], {"optimizer_options": ("initial_accumulator_value=0.1",)}),
        (
            ["--optimizer=ftrl", "--ftrl_l1=0.5"],
            {
                "optimizer_options": (
                    "learning_rate_power=-0.5",
                    "initial_accumulator_value=0.1",
                    "l1_regularization_strength=0.5",
                    "l2_regularization_strength=0.0",
                )
            },
        ),
        (["--preprocessing_name=inception"], {"preprocessing": None}),
        (["--preprocessing_name=vgg_16"], {"preprocessing": "vgg"}),
        (["--model_name=resnet_v2_50", "--preprocessing_name=inception"], {"preprocessing": None}),
        (["--model_name=lenet", "--preprocessing_name=lenet"], {"net": "mnist_lenet"}),
    ],
)
def test_each_flag_has_its_option(converted, flags, changes):
    config = converted(*flags)
    assert {name: getattr(config, name) for name in changes} == changes


def test_the_new_command_that_is_named_has_the_same_options(converted, monkeypatch, tmp_path):
    from scripts.classic.train_image_classifier import train_command

    config = converted(
        *("--checkpoint_path=a b/m.ckpt", "--checkpoint_exclude_scopes=A/Logits,A/AuxLogits"),
        *("--max_number_of_steps=7", "--optimizer=adam", "--moving_average_decay=0.9"),
        *("--train_image_size=75", "--ignore_missing_vars"),
    )
    words = shlex.split(train_command(config))
    told = []
    monkeypatch.setattr(training, "train", lambda config, progress: told.append(config) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(words[1:])
    assert told == [config]


def test_a_train_dir_with_a_run_goes_on_and_leaves_its_checkpoint_alone(
    converted, tmp_path, capsys
):
    from finetune.run import Run

    first = converted("--checkpoint_path=m.ckpt", "--max_number_of_steps=7")
    run = Run(tmp_path / "run")
    run.directory.mkdir()
    run.write_config(first, 7)
    again = converted("--checkpoint_path=other.ckpt", "--max_number_of_steps=9")
    assert again == dataclasses.replace(first, steps=9, resume=True)
    assert "it goes on, and --checkpoint_path and" in capsys.readouterr().err


def test_checkpoints_of_another_trainer_are_not_gone_on_from(slimtune, tmp_path, colours):
    import numpy as np

    import checkpoints

    checkpoints.write(tmp_path / "old" / "model.ckpt-5", {"a": np.ones(1, np.float32)})
    code, _, err = slimtune(*NAME, f"--train_dir={tmp_path / 'old'}", f"--dataset_dir={colours}")
    assert code == 1
    assert f"{tmp_path / 'old'} holds checkpoints of another trainer, as model.ckpt-5." in err
    assert f"--checkpoint_path={tmp_path / 'old'} starts from them" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--num_clones=2"], "--num_clones: this script trains one copy of the net."),
        (["--num_ps_tasks=1", "--task=2"], "--task: this script trains in one process."),
        (["--sync_replicas"], "--sync_replicas: there are no replicas to wait for."),
        (["--master=grpc://host"], "--master: there is no TensorFlow server to run on"),
        (["--quantize_delay=100"], "--quantize_delay: training with simulated quantization"),
        (["--dataset_split_name=validation"], "Training reads the split train."),
        (["--labels_offset=1"], "labels from 1 on leave out classes that have pictures"),
        (["--model_name=inception_v33"], "There is no net named 'inception_v33'."),
        (["--preprocessing_name=fisheye"], "There is no preprocessing 'fisheye'."),
    ],
)
def test_what_has_no_meaning_today_is_refused_with_its_reason(
    slimtune, tmp_path, colours, flags, said
):
    code, out, err = slimtune(
        *NAME, f"--train_dir={tmp_path / 'run'}", f"--dataset_dir={colours}", *flags
    )
    assert (code, out) == (1, "")
    assert said in err and "Traceback" not in err
    assert not (tmp_path / "run").exists()


def test_how_many_classes_a_dataset_has(colours, tmp_path):
    assert slim.count_classes("imagenet", "", 0) == 1001
    assert slim.count_classes("flowers", str(colours), 0) == 3
    with pytest.raises(NotFoundError, match="How many classes 'colours' has"):
        slim.count_classes("colours", "", 0)
