"""Jobs by number, and what comes of those that fail."""

import tempfile
from pathlib import Path

import pytest

from checkpoints.errors import DataError, SlimtuneError
from checkpoints.progress import SILENT
from finetune.beam.jobs import Jobs, _as_error
from finetune.beam.options import read_options

pytest.importorskip("apache_beam")


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A module that workers find on the path of this process."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/jobs_of_a_test.py").write_text(
        "import os\n"
        "import signal\n"
        "from checkpoints.errors import DataError\n"
        "def double(settings, order):\n"
        "    for line in order:\n"
        "        print('heard by nobody')\n"
        "        yield line * settings['times']\n"
        "def refuse(settings, order):\n"
        "    raise DataError('Flowers wither.', expected='water', received=1, next_step='Pour.')\n"
        "    yield\n"
        "def fail(settings, order):\n"
        "    raise ValueError('first line\\nreason')\n"
        "    yield\n"
        "def die(settings, order):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "    yield\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    import jobs_of_a_test

    return jobs_of_a_test


@pytest.fixture
def jobs(tmp_path):
    def make(options, count=3):
        made = Jobs(tmp_path / "scratch", read_options(options))
        for number in range(count):
            made.add([b"%d" % number, b"x"], 10 + number)
        return made

    return make


IN_MEMORY = "--direct_running_mode=in_memory"


def test_answers_come_in_order(work, jobs, tmp_path, heard):
    made = jobs(IN_MEMORY)
    made.run(work.double, {"times": 3}, heard)
    assert [list(lines) for lines in made.answers()] == [
        [b"000", b"xxx"], [b"111", b"xxx"], [b"222", b"xxx"],
    ]  # fmt: skip
    assert sum(heard.advanced) == 33
    made.remove()
    assert [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()] == []


def test_what_a_job_raises_is_raised_with_all_its_parts(work, jobs):
    with pytest.raises(DataError) as caught:
        jobs(IN_MEMORY).run(work.refuse, {}, SILENT)
    assert str(caught.value) == "Flowers wither.\nExpected: water\nReceived: 1\nNext: Pour."


@pytest.mark.parametrize(
    "kind", ["DataError", "InputError", "OutputError", "PictureError", "NotFoundError"]
)
def test_every_kind_of_error_comes_back(kind):
    told = {"type": kind, "message": "It fails.", "expected": "a", "received": "b", "next": "c"}
    error = _as_error(told)
    assert error.as_json() == told | {"type": "DataError" if kind == "PictureError" else kind}


def test_a_fault_is_told_in_one_line(work, jobs, tmp_path):
    with pytest.raises(SlimtuneError) as caught:
        jobs(IN_MEMORY).run(work.fail, {}, SILENT)
    assert caught.value.message == "The Beam pipeline failed."
    assert caught.value.received == "reason"
    assert "Every worker needs this version of slimtune" in caught.value.next_step


def test_a_worker_process_that_is_killed_ends_all(work, jobs, tmp_path, capfd):
    made = jobs("--direct_num_workers=2")
    with pytest.raises(DataError, match=r"The Beam pipeline failed\.") as caught:
        made.run(work.die, {}, SILENT)
    [log] = (tmp_path / "logs").iterdir()
    assert caught.value.next_step.startswith(f"Look into {log}.")
    assert "-9" in caught.value.received
    assert capfd.readouterr() == ("", "")
    assert Path(tmp_path / "scratch/orders").is_dir()
