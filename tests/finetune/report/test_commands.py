import shlex
from pathlib import Path

import pytest

from finetune.report.commands import commands, options
from finetune.report.facts import read_facts
from finetune.run import Run


def lines(path, pictures=()):
    return [command.line for command in commands(read_facts(Run(Path(path))), pictures)]


def test_paths_with_blanks_and_quotes_reach_the_shell_whole(make_run, tmp_path, hostile_data):
    path = tmp_path / "it's a $(run) <é>"
    make_run(path)
    train, evaluate, convert, predict, report = map(shlex.split, lines(path, ["a b.jpg"]))
    assert train == [
        *("slimtune", "train", str(hostile_data), "--run", f"{path}-again", "--net", "tiny"),
        *("--checkpoint", "tiny.ckpt", "--steps", "20", "--batch-size", "4"),
    ]
    assert evaluate == ["slimtune", "evaluate", str(path), str(hostile_data), "--split", "val"]
    assert convert == ["slimtune", "convert", str(path), str(tmp_path / "model.pb")]
    assert predict == ["slimtune", "predict", str(tmp_path / "model.pb"), "a b.jpg"]
    assert report == ["slimtune", "report", str(path), "--model", str(tmp_path / "model.pb")]


def test_the_train_command_gives_the_options_that_were_given(make_run):
    from finetune.config import TrainConfig
    from scripts.commands.train import command

    made = make_run(
        trainable=["Net/Logits", "Net/Mixed_7"], exclude=["none"], staircase=True, dropout=0.0
    )
    words = shlex.split(lines(made.path)[0])
    given = command.make_context("train", words[2:]).params
    given = {name: value for name, value in given.items() if value not in (None, ())}
    del given["as_json"]
    again = TrainConfig(**given)
    stored = read_facts(Run(made.path)).config
    assert {**again.as_json(), "run": ""} == {**stored.as_json(), "run": ""}


def test_options_that_were_given_stand_first(make_run):
    shown = options(read_facts(Run(make_run(seed=3).path)).config)
    given = [(o.flag, o.value) for o in shown if not o.is_default]
    assert given == [(o.flag, o.value) for o in shown[: len(given)]]
    assert ("--seed", "3") in given
    assert ("--optimizer", "adam") in [(o.flag, o.value) for o in shown if o.is_default]
    assert not {"--data", "--run", "--resume", "--overwrite"} & {o.flag for o in shown}


@pytest.mark.parametrize("given", [".", "../a run"])
def test_a_run_named_from_inside_has_its_siblings_beside_it(make_run, monkeypatch, given):
    path = make_run().path
    monkeypatch.chdir(path)
    train = shlex.split(lines(given)[0])
    assert train[train.index("--run") + 1] in (f"{path}-again", "../a run-again")


def test_a_path_that_begins_with_a_dash_is_no_option(make_run):
    predict = shlex.split(lines(make_run().path, ["-rf.jpg"])[3])
    assert predict[-1] == "./-rf.jpg"
