"""Watching a training that is played by hand."""

import threading
import time

import pytest

from checkpoints.errors import RunError, UnsupportedError
from finetune import watching
from finetune.watching import watch

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run(colour_model, tmp_path):
    return colour_model.begin_run(tmp_path / "run", 30)


def steps(watched):
    return [found.step for found in watched.results]


def test_checkpoints_that_are_there_and_those_to_come_each_once(colour_model, run, colours):
    colour_model.save(run, 9)
    colour_model.save(run, 10)
    told = []

    def train():
        time.sleep(0.1)
        colour_model.save(run, 20)
        time.sleep(0.1)
        colour_model.end(run, 30)

    trainer = threading.Thread(target=train)
    trainer.start()
    watched = watch(run, colours, interval=0.02, timeout=30, each=told.append)
    trainer.join()
    assert steps(watched) == [9, 10, 20, 30]
    assert (watched.ended, watched.skipped) == ("finished", ())
    assert told == list(watched.results)


def test_a_run_that_begins_later_is_waited_for(colour_model, colours, tmp_path):
    def train():
        time.sleep(0.1)
        colour_model.end(colour_model.begin_run(tmp_path / "later", 5), 5)

    trainer = threading.Thread(target=train)
    trainer.start()
    assert steps(watch(tmp_path / "later", colours, interval=0.02, timeout=30)) == [5]
    trainer.join()


def test_it_ends_where_training_shows_no_sign(colour_model, run, colours, heard):
    colour_model.save(run, 10)
    watched = watch(run, colours, interval=0.01, timeout=0.05, progress=heard)
    assert (steps(watched), watched.ended) == ([10], "timeout")
    assert heard.said[-1] == f"{run}: no sign of training for 0.05 seconds."


def test_signs_of_training_prolong_the_wait(colour_model, run, colours):
    def train():
        for line in range(10):
            (run / "metrics.jsonl").write_text("{}\n" * (line + 1))
            time.sleep(0.05)
        colour_model.end(run, 30)

    trainer = threading.Thread(target=train)
    trainer.start()
    watched = watch(run, colours, interval=0.01, timeout=0.3)
    trainer.join()
    assert (steps(watched), watched.ended) == ([30], "finished")


def test_a_checkpoint_that_is_deleted_meanwhile_is_passed_over(
    colour_model, run, colours, monkeypatch, heard
):
    colour_model.save(run, 10)
    colour_model.end(run, 30)
    evaluate = watching.evaluate

    def evaluate_late(prefix, *arguments, **named):
        if prefix.name == "model.ckpt-10":
            for file in run.glob("model.ckpt-10.*"):
                file.unlink()
        return evaluate(prefix, *arguments, **named)

    monkeypatch.setattr(watching, "evaluate", evaluate_late)
    watched = watch(run, colours, interval=0.01, timeout=5, progress=heard)
    assert (steps(watched), watched.skipped) == ([30], ("model.ckpt-10",))
    assert "model.ckpt-10 was deleted before it could be read." in heard.said


def test_a_broken_checkpoint_is_no_deleted_one(colour_model, run, colours):
    prefix = colour_model.save(run, 10)
    prefix.with_name("model.ckpt-10.index").write_bytes(b"broken")
    with pytest.raises(Exception, match=r"model\.ckpt-10"):
        watch(run, colours, interval=0.01, timeout=5)


def test_what_nothing_comes_to_and_what_nothing_can_come_to(colours, colour_model, tmp_path):
    with pytest.raises(RunError, match="No checkpoint came") as caught:
        watch(tmp_path / "never", colours, interval=0.01, timeout=0.03)
    assert caught.value.received == "nothing in 0.03 seconds"
    model = colour_model.write_pb(tmp_path / "m.pb")
    with pytest.raises(UnsupportedError, match="is a file"):
        watch(model, colours)


def test_directories_that_say_no_net_are_refused_at_once(colour_model, run, colours, tmp_path):
    (tmp_path / "other").mkdir()
    colour_model.save(tmp_path / "other", 3)
    with pytest.raises(UnsupportedError, match="do not say their net"):
        watch(tmp_path / "other", colours)
    with pytest.raises(UnsupportedError, match="is the best checkpoint of a run") as caught:
        watch(run / "best", colours)
    assert caught.value.next_step == f"Name {run}."
