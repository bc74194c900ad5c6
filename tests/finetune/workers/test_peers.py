import socket
import threading

import pytest

from checkpoints.errors import RunError
from finetune.workers import peers
from finetune.workers.cluster import Cluster
from finetune.workers.peers import Watch, find_lost, listens, wait_for_all


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server, f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody():
    """An address of this machine at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_who_listens_is_there(listener, nobody):
    assert listens(listener[1])
    assert not listens(nobody)
    assert not listens("name.invalid:1")


def test_all_are_waited_for(listener, heard):
    wait_for_all(Cluster((listener[1], "own:1"), 1), heard)
    assert sum(heard.advanced) == heard.total == 1


def test_who_does_not_come_is_named(listener, nobody, heard):
    with pytest.raises(RunError) as caught:
        wait_for_all(Cluster(("own:1", listener[1], nobody), 0), heard, seconds=0.0)
    assert caught.value.message == f"Nobody listens at worker 2 ({nobody})."
    assert caught.value.received == "2 of them"


def test_who_is_lost_is_found(listener, nobody, monkeypatch):
    monkeypatch.setattr(peers, "FAILURES", 1)
    assert find_lost(Cluster((nobody, "own:1", listener[1]), 1)) == [0]


def test_the_watch_tells_once_who_was_lost(listener, monkeypatch):
    monkeypatch.setattr(peers, "PROBE_SECONDS", 0.01)
    told = threading.Event()
    watch = Watch(Cluster(("own:1", listener[1]), 0), lambda _: told.set())
    assert watch.lost == [] and not watch.is_stopped_within(0.1)
    listener[0].close()
    assert told.wait(20)
    assert watch.lost == [1]
    watch.stop()
    assert watch.is_stopped_within(0)
