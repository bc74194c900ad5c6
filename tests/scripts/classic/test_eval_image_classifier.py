"""eval_image_classifier: which checkpoint, which pictures, which labels; figures as they were printed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import checkpoints
from finetune import evaluate
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import RecordWriter, make_example, parse_example, read_records
from finetune.nets.file_options import NetOptions

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def checkpoint(tiny_net, write_v1):
    """The tiny net of three classes at random: a V1 file."""
    return write_v1("tiny", 16, 3, "tiny.ckpt")


@pytest.fixture
def scored(slimtune, tmp_path, colours):
    """Types the script; gives what --json prints."""

    def type_(checkpoint, *flags, data=colours):
        code, out, err = slimtune(
            *("classic", "eval_image_classifier", f"--checkpoint_path={checkpoint}"),
            *(f"--dataset_dir={data}", f"--eval_dir={tmp_path / 'eval'}", "--model_name=tiny"),
            *("--dataset_split_name=validation", *flags, "--json"),
        )
        assert code == 0, err
        return json.loads(out)

    return type_


def test_a_checkpoint_without_a_run_is_scored_as_its_net(
    scored, slimtune, checkpoint, colours, tmp_path
):
    expected = evaluate(str(checkpoint), colours, net="tiny")
    found = scored(checkpoint)
    assert (found["eval/Accuracy"], found["eval/Recall_5"]) == (expected.accuracy, 1.0)
    assert (found["count"], found["checkpoint"]) == (16, str(checkpoint))
    assert found["same"] == [f"slimtune evaluate {checkpoint} {colours} --split val --net tiny"]
    code, out, err = slimtune(
        *("classic", "eval_image_classifier", "--checkpoint_path", checkpoint, "--eval_dir"),
        *(tmp_path / "eval", "--dataset_dir", colours, "--model_name", "tiny"),
        *("--dataset_split_name", "validation", "--restore_global_step=False"),
    )
    accuracy = f"{np.float32(expected.accuracy):.8g}"
    assert (code, out) == (0, f"eval/Accuracy[{accuracy}]\neval/Recall_5[1]\n")
    assert "--restore_global_step: a checkpoint without a step is no error." in err


def test_other_sizes_preprocessings_and_fewer_pictures(scored, checkpoint, colours):
    options = NetOptions(preprocessing="vgg", image_size=20)
    expected = evaluate(str(checkpoint), colours, net="tiny", options=options, limit=10)
    flags = ("--eval_image_size=20", "--preprocessing_name=vgg_16", "--max_num_batches=2")
    found = scored(checkpoint, *flags, "--batch_size=5")
    assert (found["count"], found["eval/Accuracy"]) == (10, expected.accuracy)
    assert found["same"][0].endswith("--net tiny --preprocessing vgg --image-size 20 --limit 10")


def test_moving_averages_stand_in_for_the_weights(scored, slimtune, checkpoint, colours, tmp_path):
    with checkpoints.open(checkpoint) as saved:
        values = {name: saved[name] for name in saved}
    name = "Tiny/Logits/fc/biases"
    assert not values[name].any()
    biases = np.array([0, 1000, 0], np.float32)
    averaged = {**values, f"{name}/ExponentialMovingAverage": biases}
    prefix = checkpoints.write(tmp_path / "averaged", averaged).prefix
    found = scored(prefix, "--moving_average_decay=0.9")
    assert [sum(column) for column in zip(*found["confusion"], strict=True)] == [0, 16, 0]
    code, _, err = slimtune(
        *("classic", "eval_image_classifier", f"--checkpoint_path={checkpoint}"),
        *(f"--dataset_dir={colours}", "--model_name=tiny", "--moving_average_decay=0.9"),
    )
    assert code == 1 and f"{checkpoint} holds no moving averages." in err


def shifted(colours, folder, names, texts):
    """The colours with labels from 1, as ImageNet's records have them."""
    folder.mkdir()
    for split in read_dataset(colours).splits.values():
        for shard in split.shards:
            with (folder / shard.path.name).open("wb") as file:
                writer = RecordWriter(file)
                for record in read_records(shard.path):
                    features = parse_example(record)
                    label = features["image/class/label"][0] + 1
                    text = features["image/class/text"][0] if texts else b""
                    more = {"image/class/label": label, "image/class/text": text}
                    encoded = {"image/encoded": features["image/encoded"][0]}
                    writer.write(make_example({**encoded, **more, "image/format": b"png"}))
    if names:
        (folder / "labels.txt").write_text("".join(f"{name}\n" for name in names))
    return folder


@pytest.mark.parametrize("with_names", [True, False])
def test_an_offset_leaves_the_background_out(
    scored, slimtune, checkpoint, write_v1, colours, tmp_path, with_names
):
    expected = evaluate(str(checkpoint), colours, net="tiny")
    names = ("background", "blue", "green", "red") if with_names else ()
    data = shifted(colours, tmp_path / "shifted", names, texts=not with_names)
    found = scored(checkpoint, "--labels_offset=1", data=data)
    assert (found["eval/Accuracy"], found["count"]) == (expected.accuracy, 16)
    assert found["classes"] == ["blue", "green", "red"]

    # Without it the net has a class for the background.
    with checkpoints.open(checkpoint) as saved:
        values = {name: saved[name] for name in saved}
    for head in ("Logits", "AuxLogits"):
        for kind in ("weights", "biases"):
            value = values[f"Tiny/{head}/fc/{kind}"]
            background = np.full(
                (*value.shape[:-1], 1), -1e3 if kind == "biases" else 0, np.float32
            )
            values[f"Tiny/{head}/fc/{kind}"] = np.concatenate([background, value], axis=-1)
    four = checkpoints.write(tmp_path / "four", values).prefix
    found = scored(four, data=data)
    assert (found["eval/Accuracy"], len(found["classes"])) == (expected.accuracy, 4)
    code, _, err = slimtune(
        *("classic", "eval_image_classifier", f"--checkpoint_path={four}", "--model_name=tiny"),
        *(f"--dataset_dir={colours}", "--dataset_split_name=validation", "--labels_offset=1"),
    )
    assert code == 1 and "labels from 1 on leave out classes that have pictures" in err


def test_what_contradicts_the_run_is_refused(slimtune, tiny_net, colour_model, colours, tmp_path):
    run = colour_model.begin_run(tmp_path / "run", 20)
    colour_model.end(run, 20)
    signature = {"net": "tiny", "preprocessing": {"name": "inception"}, "image_size": 16}
    (run / "signature.json").write_text(json.dumps(signature))
    words = ("classic", "eval_image_classifier", f"--checkpoint_path={run}", "--model_name=tiny")
    data = (f"--dataset_dir={colours}", "--dataset_split_name=validation")
    code, out, err = slimtune(*words, *data, f"--eval_dir={tmp_path / 'eval'}")
    assert (code, out) == (0, "eval/Accuracy[1]\neval/Recall_5[1]\n")
    for flag, said, expected in (
        ("--model_name=inception_v3", "of another net.\nExpected: --model_name=tiny", 1),
        ("--preprocessing_name=vgg", "was trained with the preprocessing inception.", 1),
        ("--quantize", "--quantize: training with simulated quantization", 1),
        ("--max_num_batches=0", "--max_num_batches counts from 1.", 2),
    ):
        code, out, err = slimtune(*words, *data, flag)
        assert (code, out) == (expected, "")
        assert said in err and "Traceback" not in err
