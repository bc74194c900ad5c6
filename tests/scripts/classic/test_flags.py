"""Old flags: how they are spelled, which change nothing, which are refused."""

from __future__ import annotations

import json

import click
import pytest

import scripts.command_line
from checkpoints.errors import RunError
from scripts.classic.flags import Flag, Idle, Refused, classic, finish, spelled_out
from scripts.main import main

FLAGS = (
    Flag("train_dir", str, "/tmp/tfmodel/", "Where to.", path="output directory"),
    Flag("graph", str, "", "A graph.", path="graph"),
    Flag("image", str, "", "A picture.", path="file"),
    Flag("dataset_dir", str, "", "A dataset.", path="directory"),
    Flag("output_file", str, "", "A file.", path="output"),
    Flag("checkpoint_path", str, None, "Weights.", path="checkpoint"),
    Flag("batch_size", int, None, "Pictures.", least=1),
    Flag("input_binary", bool, False, "Whether it is."),
    Flag("input_mean", float, 0.0, "The mean."),
    Flag("optimizer", str, "sgd", "Which.", choices=("sgd", "adam")),
    Idle("num_readers", int, 4, "reading takes what cores there are."),
    Refused("num_clones", int, 1, "there is one copy of the net.", "Leave it out."),
    Refused("sync_replicas", bool, False, "there are no replicas.", "Leave it out."),
)


@classic(
    "old_script",
    example="slimtune classic old_script",
    flags=FLAGS,
    today="slimtune train",
    options={"run": "train_dir", "resume": "the same line"},
)
def old_script(output, train_dir, **others):
    """An old script."""
    if others["optimizer"] == "adam":
        output.say("Saved; --resume goes on.")
        raise RunError(
            "--run or --train_dir RUN is full; --input-binary REGEX.",
            expected="--loss L, --batch-size 3",
            received="slimtune train --run R",
            next_step="slimtune train --help",
        )
    others = {name: value for name, value in others.items() if value not in ("", None)}
    finish(output, {"train_dir": train_dir, **others}, ["Done."], "slimtune doctor")


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the old script; gives the exit code and both streams."""
    group = click.Group("slimtune", commands={"old_script": old_script})
    monkeypatch.setattr(scripts.command_line, "cli", group)

    def type_(*words):
        with pytest.raises(SystemExit) as stop:
            main(["old_script", *words])
        return stop.value.code, *capsys.readouterr()

    return type_


@pytest.mark.parametrize(
    "words",
    [
        ["--train_dir=a b", "--input_binary=true", "--input_mean=-127"],
        ["--train_dir", "a b", "--input_binary", "--input_mean", "-127"],
        ["-train_dir=a b", "-input_binary", "True", "-input_mean", "-127"],
        ["--noinput_binary", "--input_binary=1", "--input_mean=-127", "--train_dir", "a b"],
    ],
)
def test_flags_are_spelled_as_they_were(run, words):
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "train_dir": "a b",
        "input_binary": True,
        "input_mean": -127.0,
        "optimizer": "sgd",
        "same": ["slimtune doctor"],
    }


def test_defaults_are_the_old_ones_and_the_new_command_stands_at_the_end(run):
    code, out, err = run("--noinput_binary")
    assert (code, out) == (0, "Done.\n")
    assert err == "The same with slimtune:\n  slimtune doctor\n"


def test_words_that_are_no_flags_stay_as_they_are():
    booleans = {"binary": True, "note": False}
    words = ["binary", "nobinary", "-", "--", "--json", "--note", "--binary", "--binary=", "--note"]
    assert spelled_out(words, booleans) == [
        *["binary", "nobinary", "-", "--", "--json", "--note=--binary", "--binary=", "--note"]
    ]
    assert spelled_out(["--nobinary", "--te", "--nonote"], booleans) == [
        *["--binary=false", "--te", "--nonote"]
    ]
    assert spelled_out(["---binary", "--nobinary=1"], booleans) == ["---binary", "--nobinary=1"]


def test_flags_without_effect_are_taken_and_named(run):
    code, _, err = run("--num_readers=8", "--logtostderr")
    assert code == 0
    assert err.startswith(
        "Flags that change nothing today:\n"
        "  --num_readers: reading takes what cores there are.\n"
        "  --logtostderr: what is said on the way goes to stderr.\n"
    )
    assert "nothing today" not in run("--num_readers=4")[2]


def test_flags_without_meaning_are_refused_together_unless_they_have_their_defaults(run):
    assert run("--num_clones=1", "--sync_replicas=false")[0] == 0
    code, out, err = run("--num_clones=2", "--sync_replicas")
    assert (code, out) == (1, "")
    assert err == (
        "Error: old_script does not take these flags today:\n"
        "  --num_clones: there is one copy of the net.\n"
        "  --sync_replicas: there are no replicas.\n"
        "Received: --num_clones=2 --sync_replicas=True\n"
        "Next: Leave it out.\n"
    )


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--train_dri=x", "--train_dri"),
        ("--optimizer=rmsprop", "rmsprop"),
        ("--num_clones=two", "two"),
        ("--input_binary=maybe", "maybe"),
        ("--input_binary=2", "2"),
    ],
)
def test_wrong_usage_is_named(run, word, said):
    code, _, err = run(word)
    assert code == 2
    assert f"Received: {said}\n" in err and "old_script --help" in err


def test_the_help_says_which_flags_have_no_effect_and_which_are_refused(run):
    code, out, _ = run("--help")
    text = " ".join(out.split())
    assert code == 0
    assert (
        "--num_readers INTEGER No effect: reading takes what cores there are. [default: 4]" in text
    )
    assert (
        "--num_clones INTEGER Refused: there is one copy of the net. Leave it out. [default: 1]"
        in text
    )


def test_messages_name_the_flags_of_the_script(run):
    code, _, err = run("--optimizer=adam")
    assert code == 1
    assert err == (
        "Saved; the same line goes on.\n"
        "Error: --train_dir RUN is full; --input_binary.\n"
        "Expected: slimtune train --loss L, --batch_size 3\n"
        "Received: slimtune train --run R\n"
        "Next: slimtune classic old_script --help\n"
    )


@pytest.mark.parametrize(
    ("word", "code", "message", "expected"),
    [
        ("--train_dir=", 2, "--train_dir is empty and names nothing.", "--train_dir=PATH"),
        ("--checkpoint_path=", 2, "--checkpoint_path is empty", "--checkpoint_path=PATH"),
        ("--input_mean=nan", 2, "--input_mean is no finite number.", "a number, as in 0.5"),
        ("--input_mean=1e400", 2, "--input_mean is no finite number.", "a number, as in 0.5"),
        ("--batch_size=0", 2, "--batch_size counts from 1.", "a number from 1"),
        ("--train_dir=file", 1, "file is a file.", "a directory, or a name that is free"),
        ("--train_dir=file/a/b", 1, "file is a file.", "a directory"),
        ("--output_file=file/a", 1, "file is a file.", "a directory"),
        ("--output_file=run", 1, "run is a directory.", "a file, or a name that is free"),
        ("--image=run", 1, "run is a directory.", "a file"),
        ("--image=nope", 1, "nope is not there.", "a file"),
        ("--dataset_dir=file", 1, "file is a file.", "a directory"),
        ("--dataset_dir=nope", 1, "nope is not there.", "a directory"),
        ("--graph=nope", 1, "nope is not there.", "a file with a graph"),
        ("--graph=run", 2, "run is a run, not a graph.", "a file with a graph"),
    ],
)
def test_what_cannot_be_is_told_first_with_its_flag(
    run, monkeypatch, tmp_path, word, code, message, expected
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/inference_graph.pb").touch()
    found, _, err = run(word)
    assert found == code
    assert err.startswith(f"Error: {message}") and f"\nExpected: {expected}\n" in err
    assert f"\nReceived: {word.replace('1e400', 'inf')}\n" in err and "\nNext: " in err
