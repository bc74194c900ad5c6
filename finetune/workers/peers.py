"""Whether the other processes are there: waited for at the start, watched until the end.

A process that has ended no longer listens, and its machine says so at once; a machine that is
gone, or a process that was stopped, answers nothing. All are seen by opening a connection: gRPC's
server speaks first (RFC 9113, section 3.4: its settings), and drops it when nothing follows.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

from checkpoints.errors import RunError
from checkpoints.progress import Progress
from finetune.workers.cluster import Cluster, address_parts

START_SECONDS = 600.0
"""How long the others may take until they answer: machines are not all ready at once."""

PROBE_SECONDS = 2.0
"""Between two looks at all others."""

AGAIN_SECONDS = 0.5
"""Until the next look where one failed."""

ANSWER_SECONDS = 5.0
"""What one of them may take to answer."""

FAILURES = 3
"""So many looks in a row have to fail: a connection can be refused for want of a moment."""


def answers(address: str) -> bool:
    """Whether a server at host:port takes a connection and speaks."""
    try:
        with socket.create_connection(address_parts(address), timeout=ANSWER_SECONDS) as opened:
            return bool(opened.recv(1))
    except OSError:
        return False


def wait_for_all(cluster: Cluster, progress: Progress, seconds: float = START_SECONDS) -> None:
    """Returns once every other process answers.

    Raises:
      RunError: some do not, after so many seconds.
    """
    missing = _others(cluster)
    ends = time.monotonic() + seconds
    names = ", ".join(map(cluster.name, missing))
    waiting = f"Waiting up to {seconds / 60:.0f} minutes for {names}"
    with progress.task(waiting, len(missing), "are there") as task:
        while missing:
            found = [index for index in missing if answers(cluster.addresses[index])]
            task.advance(len(found))
            missing = [index for index in missing if index not in found]
            if missing:
                if time.monotonic() > ends:
                    names = ", ".join(map(cluster.name, missing))
                    raise RunError(
                        f"Nobody answers at {names}.",
                        expected=f"all {len(cluster.addresses)} processes within {seconds:.0f} s",
                        received=f"{len(cluster.addresses) - len(missing)} of them",
                        next_step="Start the same command on every machine, and let their ports "
                        "through.",
                    )
                time.sleep(0.2)


def find_lost(cluster: Cluster) -> list[int]:
    """The others that do not answer any more, looked at until it is certain."""
    missing = _others(cluster)
    for look in range(FAILURES):
        if look:
            time.sleep(AGAIN_SECONDS)
        missing = [index for index in missing if not answers(cluster.addresses[index])]
    return missing


class Watch:
    """Looks at the others all the time, in a thread, until one is lost.

    Attributes:
      lost: those that are, or empty.
    """

    def __init__(self, cluster: Cluster, on_lost: Callable[[Watch], None]) -> None:
        """Starts it.

        Args:
          cluster: whose other processes.
          on_lost: called once with this, in the thread.
        """
        self.lost: list[int] = []
        self._cluster = cluster
        self._on_lost = on_lost
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Looks no more."""
        self._ended.set()
        self._thread.join()

    def is_stopped_within(self, seconds: float) -> bool:
        """Whether `stop` is called within so long."""
        return self._ended.wait(seconds)

    def _look(self) -> None:
        failures = dict.fromkeys(_others(self._cluster), 0)
        while not self._ended.wait(AGAIN_SECONDS if any(failures.values()) else PROBE_SECONDS):
            for index in failures:
                is_there = answers(self._cluster.addresses[index])
                failures[index] = 0 if is_there else failures[index] + 1
            self.lost = [index for index, count in failures.items() if count >= FAILURES]
            if self.lost and not self._ended.is_set():
                self._on_lost(self)
                return


def _others(cluster: Cluster) -> list[int]:
    return [index for index in range(len(cluster.addresses)) if index != cluster.index]
