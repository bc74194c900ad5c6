import contextlib
import socket
import threading

import pytest

from checkpoints.errors import RunError
from finetune.workers import peers
from finetune.workers.cluster import Cluster
from finetune.workers.peers import Watch, answers, find_lost, wait_for_all


class Speaker:
    """A server that says something to whoever comes, as gRPC's does, until it is closed."""

    def __init__(self, greeting=b"settings"):
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._greeting = greeting
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                opened, _ = self._server.accept()
                with opened:
                    opened.sendall(self._greeting)


@pytest.fixture
def speaker():
    opened = Speaker()
    yield opened
    with contextlib.suppress(OSError):
        opened.close()


@pytest.fixture
def silent():
    """An address at which connections are taken and nothing is said."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody():
    """An address of this machine at which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def test_who_speaks_is_there(speaker, nobody, silent, monkeypatch):
    monkeypatch.setattr(peers, "ANSWER_SECONDS", 0.2)
    assert answers(speaker.address)
    assert not answers(silent)
    assert not answers(nobody)
    assert not answers("name.invalid:1")


def test_all_are_waited_for(speaker, heard):
    wait_for_all(Cluster((speaker.address, "own:1"), 1), heard)
    assert sum(heard.advanced) == heard.total == 1


def test_who_does_not_come_is_named(speaker, nobody, heard):
    with pytest.raises(RunError) as caught:
        wait_for_all(Cluster(("own:1", speaker.address, nobody), 0), heard, seconds=0.0)
    assert caught.value.message == f"Nobody answers at worker 2 ({nobody})."
    assert caught.value.received == "2 of them"


def test_who_is_lost_is_found(speaker, nobody, monkeypatch):
    monkeypatch.setattr(peers, "FAILURES", 1)
    assert find_lost(Cluster((nobody, "own:1", speaker.address), 1)) == [0]


def test_the_watch_tells_once_who_was_lost(speaker, monkeypatch):
    monkeypatch.setattr(peers, "PROBE_SECONDS", 0.01)
    told = threading.Event()
    watch = Watch(Cluster(("own:1", speaker.address), 0), lambda _: told.set())
    assert watch.lost == [] and not watch.is_stopped_within(0.1)
    speaker.close()
    assert told.wait(20)
    assert watch.lost == [1]
    watch.stop()
    assert watch.is_stopped_within(0)
