"""What --beam-options may say."""

import pytest

from checkpoints.errors import UsageError
from finetune.beam.options import read_options

pytest.importorskip("apache_beam")


def test_worker_processes_of_this_machine(monkeypatch):
    monkeypatch.setattr("finetune.beam.options.available_cores", lambda: 6)
    assert read_options().processes == 6
    assert read_options(default_processes=1).processes == 1
    assert read_options("--direct_num_workers 3", default_processes=1).processes == 3
    assert read_options("--direct_num_workers=3", 2).processes == 2
    assert read_options("--runner=DirectRunner").processes == 6
    assert read_options("--direct_running_mode=in_memory").processes == 0


def test_another_engine_has_workers_of_its_own():
    options = read_options("--runner=FlinkRunner --flink_master 'a b:8081' --parallelism=4")
    assert options.processes is None
    assert options.arguments == (
        "--runner=FlinkRunner", "--flink_master", "a b:8081", "--parallelism=4",
    )  # fmt: skip
    with pytest.raises(UsageError, match="--processes counts worker processes of this machine"):
        read_options("--runner=FlinkRunner", 4)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--direct_num_worker 2", "Apache Beam has no option --direct_num_worker."),
        ("'--runner", "--beam-options cannot be read: No closing quotation."),
        ("--direct_num_workers many", "argument --direct_num_workers: invalid int value: 'many'."),
    ],
)
def test_what_nobody_knows_is_refused(text, told, capsys):
    with pytest.raises(UsageError) as caught:
        read_options(text)
    assert told in str(caught.value)
    assert capsys.readouterr() == ("", "")
