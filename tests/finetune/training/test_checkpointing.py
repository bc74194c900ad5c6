"""Checkpoints of a run: whole or absent, the last few and the best kept, foreign files untouched."""

from pathlib import Path

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import RunError
from exporters.runtime import load_tensorflow
from finetune.run import Run
from finetune.training.checkpointing import RunSaver, clear_leftovers, own_steps

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def saving(tmp_path):
    """save(step): a checkpoint whose variable `w` is the step; and the run."""
    v1 = load_tensorflow().compat.v1
    run = Run(tmp_path / "run")
    run.directory.mkdir()
    with v1.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        variable = v1.get_variable("w", initializer=np.zeros(1000, np.float32))
        saver = RunSaver(run, keep=3)

        def save(step):
            session.run(variable.initializer, {variable.initializer.inputs[1]: np.full(1000, step)})
            return saver.save(session, step)

        yield save, run


def value(prefix):
    with checkpoints.open(prefix) as saved:
        return saved["w"][0]


def names(run):
    return sorted(path.name for path in run.directory.iterdir())


def test_eight_saves_the_best_the_second_three_kept_and_a_foreign_file(saving):
    """Case P6."""
    save, run = saving
    foreign = {
        "notes.txt": "mine",
        "model.ckpt-1.txt": "mine too",
        "model.ckpt-best.index": "and this",
    }
    for name, text in foreign.items():
        (run.directory / name).write_text(text)
    for step in range(1, 9):
        prefix = save(step)
        if step == 2:
            run.keep_best(prefix, 0.9)
    assert own_steps(run.directory) and sorted(own_steps(run.directory)) == [6, 7, 8]
    assert (run.best_step(), run.best_accuracy(), value(run.best_directory)) == (2, 0.9, 2.0)
    assert value(run.directory) == 8.0
    for name, text in foreign.items():
        assert (run.directory / name).read_text() == text
    kept = [
        f"model.ckpt-{s}.{e}" for s in (6, 7, 8) for e in ("data-00000-of-00001", "index", "meta")
    ]
    assert names(run) == sorted([*kept, *foreign, "best", "checkpoint"])
    state = load_tensorflow().train.get_checkpoint_state(str(run.directory))
    assert [Path(path).name for path in state.all_model_checkpoint_paths] == [
        "model.ckpt-6",
        "model.ckpt-7",
        "model.ckpt-8",
    ]


@pytest.mark.parametrize("place", range(1, 7))
def test_interrupted_anywhere_a_checkpoint_is_whole_or_not_there(saving, monkeypatch, place):
    save, run = saving
    save(1)
    save(2)
    calls = []
    replace, unlink = Path.replace, Path.unlink

    def counted(original):
        def call(path, *arguments, **named):
            if run.directory in path.parents:
                calls.append(path)
                if len(calls) == place:
                    raise KeyboardInterrupt
            return original(path, *arguments, **named)

        return call

    monkeypatch.setattr(Path, "replace", counted(replace))
    monkeypatch.setattr(Path, "unlink", counted(unlink))
    with pytest.raises(KeyboardInterrupt):
        save(2)
        save(3)
    monkeypatch.undo()
    clear_leftovers(run.directory)
    found = sorted(own_steps(run.directory))
    assert found in ([1], [1, 2], [1, 2, 3])
    for step in found:
        prefix = run.directory / f"model.ckpt-{step}"
        assert checkpoints.verify(prefix).is_ok
        assert value(prefix) == step
    assert not [name for name in names(run) if name.endswith(".partial")]
    assert all(int(n.split("-")[1].split(".")[0]) in found for n in names(run) if "ckpt" in n)
    assert value(run.latest()) in found


def test_a_checkpoint_that_cannot_be_written_leaves_those_before_it(saving, monkeypatch):
    save, run = saving
    save(1)
    before = {name: (run.directory / name).read_bytes() for name in names(run)}

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RunError) as caught:
        save(2)
    # The graph of this saver was written already, so that nothing else is asked for.
    assert caught.value.message == (
        f"The checkpoint of step 2 could not be written to {run.directory}."
    )
    assert caught.value.received == "No space left on device"
    assert caught.value.next_step == (
        "Make room on the disk; --resume then goes on from step 1, which is whole."
    )
    assert {name: (run.directory / name).read_bytes() for name in names(run)} == before


def test_what_a_killed_trainer_left_is_removed_and_nothing_else(tmp_path):
    run = Run(tmp_path)
    left = ["model.ckpt-5.data-00000-of-00001", "model.ckpt-5.meta", ".x.0123456789abcdef.partial"]
    kept = ["model.ckpt-4.index", "model.ckpt-4.meta", "model.ckpt-5.txt", ".hidden", "x.partial"]
    for name in (*left, *kept):
        (tmp_path / name).write_text("")
    (tmp_path / ".saving.0123456789abcdef.partial").mkdir()
    clear_leftovers(run.directory)
    assert names(run) == sorted(kept)
