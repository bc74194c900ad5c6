import json

import pytest

from checkpoints.errors import RunError, UsageError
from finetune.config import TrainConfig
from finetune.training.cluster import VARIABLE, Task, read_task
from finetune.training.training import train

WORKERS = {"worker": ["a:1", "b:1"], "ps": ["c:1"]}


def environment(cluster, type_, index):
    return {VARIABLE: json.dumps({"cluster": cluster, "task": {"type": type_, "index": index}})}


@pytest.mark.parametrize(
    ("cluster", "type_", "index", "is_chief"),
    [
        (WORKERS, "worker", 0, True),
        (WORKERS, "worker", 1, False),
        (WORKERS, "ps", 0, False),
        (WORKERS, "evaluator", 0, False),
        ({**WORKERS, "chief": ["d:1"]}, "worker", 0, False),
        ({**WORKERS, "chief": ["d:1"]}, "chief", 0, True),
        ({**WORKERS, "master": ["d:1"]}, "master", 0, True),
    ],
)
def test_the_chief_or_else_worker_0_is_the_one_that_writes(cluster, type_, index, is_chief):
    assert read_task(environment(cluster, type_, index)) == Task(type_, index, is_chief)
    assert read_task(environment(cluster, type_, str(index))) == Task(type_, index, is_chief)


@pytest.mark.parametrize("text", [None, "", " ", "{}", '{"environment": "cloud"}'])
def test_without_a_cluster_there_is_no_task(text):
    assert read_task({} if text is None else {VARIABLE: text}) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "is no object"),
        ('{"cluster": [1]}', "names a cluster without addresses"),
        ('{"cluster": {"worker": "a:1"}}', "names a cluster without addresses"),
        ('{"cluster": {"worker": ["a:1"]}}', "does not say which task this is"),
        ('{"cluster": {"worker": ["a:1"]}, "task": []}', "does not say which task this is"),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": true}}',
            "does not say which task this is",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}',
            "names the task worker 1, which its cluster does not have",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
            "names the task chief 0, which its cluster does not have",
        ),
    ],
)
def test_a_broken_description_is_refused(text, message):
    with pytest.raises(UsageError) as caught:
        read_task({VARIABLE: text})
    assert caught.value.message == f"The environment variable TF_CONFIG {message}."
    assert "env -u TF_CONFIG" in caught.value.next_step


def test_another_task_than_the_chief_takes_no_lock_and_writes_nothing(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name, value in environment(WORKERS, "worker", 1).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunError, match="This is worker 1 of the cluster in TF_CONFIG") as caught:
        train(TrainConfig(data=str(tmp_path / "data"), run=str(tmp_path / "run")))
    assert caught.value.expected == "the task chief, or worker 0 where there is no chief"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
