"""Watching a training that is played by hand."""

import pytest

from checkpoints.errors import RunError, UnsupportedError
from finetune.evaluating import watching
from finetune.evaluating.watching import watch

pytestmark = pytest.mark.tensorflow


class Clock:
    """Stands in for the module `time`: what is to happen does while somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.plan = []

    def at(self, seconds, action, *arguments):
        self.plan.append((seconds, action, arguments))

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        for entry in [entry for entry in self.plan if entry[0] <= self.now]:
            self.plan.remove(entry)
            entry[1](*entry[2])


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    return clock


@pytest.fixture
def run(colour_model, tmp_path):
    return colour_model.begin_run(tmp_path / "run", 30)


def steps(watched):
    return [found.step for found in watched.results]


def test_checkpoints_that_are_there_and_those_to_come_each_once(colour_model, run, colours, clock):
    colour_model.save(run, 9)
    colour_model.save(run, 10)
    clock.at(60, colour_model.save, run, 20)
    clock.at(90, colour_model.end, run, 30)
    told = []
    watched = watch(run, colours, each=told.append)
    assert steps(watched) == [9, 10, 20, 30]
    assert (watched.ended, watched.skipped) == ("finished", ())
    assert told == list(watched.results)
    assert clock.now == 90


def test_a_run_that_begins_later_is_waited_for(colour_model, colours, tmp_path, clock):
    run = tmp_path / "later"
    clock.at(1000, colour_model.begin_run, run, 5)
    clock.at(2500, colour_model.end, run, 5)
    assert steps(watch(run, colours)) == [5]


def test_it_ends_where_training_shows_no_sign(colour_model, run, colours, heard, clock):
    colour_model.save(run, 10)
    watched = watch(run, colours, timeout=600, progress=heard)
    assert (steps(watched), watched.ended) == ([10], "timeout")
    assert heard.said[-1] == f"{run}: no sign of training for 600 seconds."
    assert clock.now == 600


def test_signs_of_training_prolong_the_wait(colour_model, run, colours, clock):
    for line in range(1, 10):
        clock.at(500 * line, (run / "metrics.jsonl").write_text, "{}\n" * line)
    clock.at(5000, colour_model.end, run, 30)
    watched = watch(run, colours, timeout=600)
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
    watched = watch(run, colours, progress=heard)
    assert (steps(watched), watched.skipped) == ([30], ("model.ckpt-10",))
    assert "model.ckpt-10 was deleted before it could be read." in heard.said


def test_a_broken_checkpoint_is_no_deleted_one(colour_model, run, colours):
    prefix = colour_model.save(run, 10)
    prefix.with_name("model.ckpt-10.index").write_bytes(b"broken")
    with pytest.raises(Exception, match=r"model\.ckpt-10"):
        watch(run, colours)


def test_what_nothing_comes_to_and_what_nothing_can_come_to(colours, colour_model, tmp_path):
    with pytest.raises(RunError, match="No checkpoint came") as caught:
        watch(tmp_path / "never", colours, timeout=90)
    assert caught.value.received == "nothing in 90 seconds"
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
