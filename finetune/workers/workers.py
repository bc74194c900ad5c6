"""The processes that train one run, as each of them uses them; one alone is a case of it.

Every process builds the same graph, takes its rows of each batch, and the mean of all gradients
changes the variables of all alike. The first is the chief: it alone writes.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from checkpoints.errors import RunError, SlimtuneError
from checkpoints.progress import SILENT, Progress
from exporters.runtime import load_tensorflow, reason_of, session_config
from finetune.workers.cluster import Cluster
from finetune.workers.collectives import Collectives
from finetune.workers.part import Part
from finetune.workers.peers import Watch, find_lost, wait_for_all

T = TypeVar("T")

_JOB = "worker"
_MESSAGE_BYTES = 1 << 14
_MEETING_SECONDS = 120.0
"""How long processes that all answer may take to exchange their first word."""

_GRACE_SECONDS = 4.0
"""How long what is busy has to end by itself when a process was lost."""
_RESTART = "Start the same command again on all of them, with --resume where the run has begun."


class Workers:
    """A context manager; inside of it the processes can reach each other.

    Attributes:
      index: which process this is.
      count: how many there are.
    """

    def __init__(self, cluster: Cluster | None = None, progress: Progress = SILENT) -> None:
        """Nothing is connected yet.

        Args:
          cluster: the processes; None: this one alone.
          progress: told who is waited for.
        """
        self._cluster = cluster
        self._progress = progress
        self.index = 0 if cluster is None else cluster.index
        self.count = 1 if cluster is None else len(cluster.addresses)
        self._collectives = Collectives(self.index, self.count)
        self._server: Any = None
        self._scratch: TemporaryDirectory[str] | None = None
        self._watch: Watch | None = None
        self._channel: _Channel | None = None

    @property
    def is_chief(self) -> bool:
        """Whether this process writes the run."""
        return self.index == 0

    @property
    def is_whole(self) -> bool:
        """Whether no process was lost, as far as is known."""
        return self._watch is None or not self._watch.lost

    def part(self, batch_size: int) -> Part:
        """Which rows of each batch are this process's."""
        return Part(batch_size, self.index, self.count)

    def __enter__(self) -> Workers:
        """Raises RunError where the port cannot be had, or others do not come."""
        if self._cluster is None:
            return self
        tf = load_tensorflow()
        spec = tf.train.ClusterSpec({_JOB: list(self._cluster.addresses)})
        try:
            self._server = tf.distribute.Server(
                spec, job_name=_JOB, task_index=self.index, config=self._configured()
            )
        except tf.errors.OpError as error:
            raise RunError(
                f"{self._cluster.name(self.index)} cannot listen at its address.",
                received=f"{reason_of(error.message)}; another program may have the port",
                next_step="Name an address and a free port of this machine, and end the other "
                "processes, which wait for this one.",
            ) from error
        wait_for_all(self._cluster, self._progress)
        self._watch = Watch(self._cluster, self._end)
        self._channel = _Channel(self)
        # Nobody goes on, and perhaps ends, before all have seen all.
        meeting = threading.Timer(_MEETING_SECONDS, self._give_up_meeting)
        meeting.daemon = True
        meeting.start()
        try:
            self.gather(np.zeros(1, np.int32))
        finally:
            meeting.cancel()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()
        if self._watch is not None:
            # An interrupt of `_end` is no wish of the user's, and may come late.
            with suppress(KeyboardInterrupt):
                self._watch.stop()
            if isinstance(error, KeyboardInterrupt) and self._watch.lost:
                raise self._lost(self._watch.lost) from error

    def scratch(self) -> Path:
        """A directory that goes when this process ends, also where another was lost."""
        self._scratch = self._scratch or TemporaryDirectory(prefix="slimtune-worker-")
        return Path(self._scratch.name)

    def session(self, graph: Any, config: Any = None) -> Any:
        """A session of a graph in which the processes meet.

        Args:
          graph: the tf.Graph.
          config: the ConfigProto, which is added to; None: that of every session.
        """
        v1 = load_tensorflow().compat.v1
        if self._server is None:
            return v1.Session(graph=graph, config=config)
        return v1.Session(self._server.target, graph=graph, config=self._configured(config))

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """The mean of each tensor over all processes: operations of the current graph."""
        return list(tensors) if self.count == 1 else self._collectives.mean(tensors)

    def agreeing(self, variables: Sequence[Any]) -> Any:
        """An operation that gives variables the chief's values; to be run by all at once."""
        tf = load_tensorflow()
        if self.count == 1:
            return tf.no_op()
        values = [self._collectives.from_one(variable.read_value()) for variable in variables]
        if self.is_chief:
            return tf.group(*values)
        pairs = zip(variables, values, strict=True)
        return tf.group(*[variable.assign(value) for variable, value in pairs])

    def share(self, value: Any = None) -> Any:
        """Gives everyone the chief's value, which JSON can hold; what others pass is not looked at.

        Raises:
          RunError: a process was lost.
        """
        if self._channel is None:
            return value
        return self._telling(lambda channel: channel.share(value))

    def gather(self, array: NDArray[np.int32]) -> NDArray[np.int32]:
        """The arrays of all processes, of one length: int32 [count, length] of int32 [length].

        Raises:
          RunError: a process was lost.
        """
        if self._channel is None:
            return array[np.newaxis]
        return self._telling(lambda channel: channel.gather(array))

    def part_ways(self) -> None:
        """To be called by all when nothing more is shared; afterwards each may end."""
        if self._channel is None or self._watch is None:
            return
        self.share()
        self._watch.stop()
        # Whoever passes on what the chief says may leave only when that has come everywhere.
        with suppress(Exception):
            self._channel.share(None)

    def _telling(self, exchange: Callable[[_Channel], T]) -> T:
        assert self._channel is not None  # noqa: S101 - looked at by whoever calls this
        errors = load_tensorflow().errors
        try:
            return exchange(self._channel)
        except (errors.OpError, RuntimeError) as error:
            raise self.loss_behind() or error from error

    def loss_behind(self) -> SlimtuneError | None:
        """What to say of a step that failed where a process was lost; None where all are there."""
        if self._cluster is None:
            return None
        lost = (self._watch.lost if self._watch is not None else []) or find_lost(self._cluster)
        return self._lost(lost) if lost else None

    def _lost(self, lost: Sequence[int]) -> RunError:
        assert self._cluster is not None  # noqa: S101 - one that trains alone loses nobody
        names = " and ".join(map(self._cluster.name, lost))
        return RunError(
            f"{names[0].upper()}{names[1:]} was lost: it has ended, or cannot be reached.",
            expected=f"all {self.count} processes until the end",
            received=f"no answer from {names}",
            next_step=f"Its own output says why. {_RESTART}",
        )

    def _end(self, watch: Watch) -> None:
        """Ends what this process does when another was lost.

        What is busy in Python is interrupted. A step that waits for the other cannot be: nothing
        but the end of the process ends it.
        """
        _thread.interrupt_main()
        if not watch.is_stopped_within(_GRACE_SECONDS):
            self._exit(self._lost(watch.lost))

    def _give_up_meeting(self) -> None:
        """Ends this process where the others answer and yet do not join it."""
        assert self._cluster is not None  # noqa: S101 - one that trains alone meets nobody
        self._exit(
            RunError(
                f"All {self.count} processes answer, and yet they do not come together.",
                expected="the same list of addresses, in the same order, in every process",
                received=", ".join(self._cluster.addresses),
                next_step="Give every process the same --hosts or cluster, and start them again.",
            )
        )

    def _exit(self, error: RunError) -> None:
        sys.stderr.write(f"Error: {error}\n")
        sys.stderr.flush()
        if self._scratch is not None:
            self._scratch.cleanup()
        os._exit(error.exit_code)

    def _configured(self, config: Any = None) -> Any:
        """A ConfigProto with which nothing of a graph runs in another process."""
        config = session_config() if config is None else config
        config.experimental.collective_group_leader = f"/job:{_JOB}/replica:0/task:0"
        config.isolate_session_state = True
        rewrites = config.graph_options.rewrite_options
        if rewrites.auto_mixed_precision_onednn_bfloat16 == type(rewrites).ON:
            # Fused convolutions in bfloat16 are no registered operations, and the graph that goes
            # to a server is compared with those.
            rewrites.remapping = type(rewrites).OFF
        del config.device_filters[:]
        config.device_filters.append(f"/job:{_JOB}/task:{self.index}")
        return config


ALONE = Workers()
"""One process, which trains by itself."""


class _Channel:
    """A graph of its own, through which the chief's words reach the others."""

    def __init__(self, workers: Workers) -> None:
        tf = load_tensorflow()
        self._workers = workers
        self._gathering: dict[int, tuple[Any, Any, Any]] = {}
        with tf.Graph().as_default() as graph:
            self._said = tf.compat.v1.placeholder_with_default(
                np.zeros(_MESSAGE_BYTES, np.int32), [_MESSAGE_BYTES]
            )
            self._heard = workers._collectives.from_one(self._said)
        self._session = workers.session(graph)

    def share(self, value: Any) -> Any:
        """Sends, or receives: the length first, then messages of one size."""
        text = json.dumps(value).encode() if self._workers.is_chief else b""
        length = int.from_bytes(self._pass(len(text).to_bytes(8, "little"))[:8], "little")
        heard = b"".join(
            self._pass(text[start : start + _MESSAGE_BYTES])
            for start in range(0, length, _MESSAGE_BYTES)
        )
        return json.loads(heard[:length])

    def gather(self, array: NDArray[np.int32]) -> NDArray[np.int32]:
        """Every process sends its array to all."""
        if len(array) not in self._gathering:
            self._gathering[len(array)] = self._gatherer(len(array))
        session, own, all_ = self._gathering[len(array)]
        return np.stack(session.run(all_, {own: array}))

    def _gatherer(self, length: int) -> tuple[Any, Any, Any]:
        tf = load_tensorflow()
        collectives = self._workers._collectives
        with tf.Graph().as_default() as graph:
            own = tf.compat.v1.placeholder(tf.int32, [length])
            arrays = [collectives.from_one(own, sender) for sender in range(self._workers.count)]
        return self._workers.session(graph), own, arrays

    def _pass(self, data: bytes) -> bytes:
        padded = np.zeros(_MESSAGE_BYTES, np.int32)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        heard = self._session.run(self._heard, {self._said: padded})
        return bytes(heard.astype(np.uint8))
