import json
import socket

import pytest

from checkpoints.errors import RunError, UsageError
from finetune.workers import cluster as clusters
from finetune.workers.cluster import VARIABLE, Cluster, address_parts, find_cluster

WORKERS = {"worker": ["a:1", "b:1"]}


def environment(cluster, type_, index):
    return {VARIABLE: json.dumps({"cluster": cluster, "task": {"type": type_, "index": index}})}


@pytest.mark.parametrize(
    ("cluster", "type_", "index", "addresses", "place"),
    [
        (WORKERS, "worker", 0, ("a:1", "b:1"), 0),
        (WORKERS, "worker", 1, ("a:1", "b:1"), 1),
        ({**WORKERS, "chief": ["d:1"]}, "worker", 0, ("d:1", "a:1", "b:1"), 1),
        ({**WORKERS, "chief": ["d:1"]}, "chief", 0, ("d:1", "a:1", "b:1"), 0),
        ({**WORKERS, "master": ["d:1"]}, "worker", 1, ("d:1", "a:1", "b:1"), 2),
        ({**WORKERS, "ps": []}, "worker", 1, ("a:1", "b:1"), 1),
    ],
)
def test_the_chief_or_else_worker_0_is_the_first(cluster, type_, index, addresses, place):
    found = Cluster(addresses, place)
    assert find_cluster((), environment(cluster, type_, index)) == found
    assert find_cluster((), environment(cluster, type_, str(index))) == found


@pytest.mark.parametrize(
    "text", [None, "", " ", "{}", '{"environment": "cloud"}', '{"cluster": {}, "task": {}}']
)
def test_without_a_cluster_a_process_trains_alone(text):
    assert find_cluster((), {} if text is None else {VARIABLE: text}) is None
    assert find_cluster((), environment({"worker": ["a:1"]}, "worker", 0)) is None


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
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "tpu", "index": 0}}',
            "names the task tpu 0, which its cluster does not have",
        ),
    ],
)
def test_a_broken_description_is_refused(text, message):
    with pytest.raises(UsageError) as caught:
        find_cluster((), {VARIABLE: text})
    assert caught.value.message == f"The environment variable TF_CONFIG {message}."
    assert "env -u TF_CONFIG" in caught.value.next_step


def test_an_evaluator_is_told_what_evaluates():
    with pytest.raises(RunError, match="an evaluator does not train") as caught:
        find_cluster((), environment(WORKERS, "evaluator", 0))
    assert "evaluate RUN DATA --watch" in caught.value.next_step


def test_a_cluster_with_parameter_servers_is_refused():
    with pytest.raises(RunError, match="parameter servers") as caught:
        find_cluster((), environment({**WORKERS, "ps": ["c:1"]}, "worker", 0))
    assert caught.value.received == "worker 0 of a cluster with 1 ps"


def test_a_task_of_another_kind_is_refused():
    with pytest.raises(UsageError, match="names the task tpu 0, which does not train"):
        find_cluster((), environment({**WORKERS, "tpu": ["c:1"]}, "tpu", 0))


@pytest.mark.parametrize(
    ("address", "parts"),
    [("a:1", ("a", 1)), ("[::1]:65535", ("::1", 65535)), ("10.0.0.1:2222", ("10.0.0.1", 2222))],
)
def test_addresses(address, parts):
    assert address_parts(address) == parts


@pytest.mark.parametrize(
    "address",
    [
        "a",
        "a:",
        ":1",
        "a:0",
        "a:65536",
        "a:x",
        "",
        "a:-1",
        "a:²",
        "http://a:1",
        "::1:80",
        "[::1:80",
        "[]:1",
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(UsageError, match="is no address of a process"):
        find_cluster([address, "b:1"], {})


def test_an_address_given_twice_is_refused():
    with pytest.raises(UsageError, match="names an address twice"):
        find_cluster(["localhost:1", "localhost:1"], {})


def test_hosts_that_are_all_elsewhere_are_refused():
    # Reserved for documentation (RFC 5737): no machine has it.
    with pytest.raises(UsageError, match="No address of --hosts is one of this machine") as caught:
        find_cluster(["203.0.113.1:1", "203.0.113.2:1"], {})
    assert socket.gethostname() in caught.value.expected


def test_hosts_and_a_cluster_in_the_environment_are_too_much():
    with pytest.raises(UsageError, match="both name a cluster"):
        find_cluster(["localhost:1"], environment(WORKERS, "worker", 0))


def test_of_several_on_one_machine_each_is_the_first_that_is_free(monkeypatch):
    taken = {2201}
    monkeypatch.setattr(
        clusters, "claim_port", lambda port: port not in taken and not taken.add(port)
    )
    hosts = ("203.0.113.1:2200", "localhost:2201", "127.0.0.1:2202", "localhost:2203")
    assert find_cluster(hosts, {}) == Cluster(hosts, 2)
    assert find_cluster(hosts, {}) == Cluster(hosts, 3)
    with pytest.raises(RunError, match="taken by a process already") as caught:
        find_cluster(hosts, {})
    assert caught.value.received == "localhost:2201, 127.0.0.1:2202, localhost:2203"
