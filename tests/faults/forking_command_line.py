"""A process that runs slimtune in forks of itself, each with the fault that it is told.

What it imports first no fork has to load; TensorFlow too with the argument `tensorflow`. A line of JSON on
stdin is a command (`Command` below has its words), the line it answers with what came of it.

A moment is an operation that changes what lies below the watched folder: a file is opened to be
written, made, renamed or removed. Python's audit events tell of each just before it happens.
"""

import errno
import gc
import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link", "os.truncate")
RIVAL_SECONDS = 0.5
"""How long a command that was stopped waits for its rival, which may wait for its lock."""


@dataclass
class Command:
    """A command and what befalls it.

    Attributes:
      words: as they are typed after `slimtune`.
      watched: the folder whose changes are moments.
      said: folder for what it prints, and for the list of its moments.
      at: the moment at which something befalls it, counted from 0; None: nothing does.
      fault: "kill"; "stop" (until `rival` has run); "remove" (the folder `removed` vanishes); or
        the name of an error number, which every moment from then on ends with.
      removed: a folder.
      rival: the words of another command.
      after: seconds after which it is killed.
      limit: on the size of a file, in bytes.
      clock: what time.time says, one value after the other, the last one for ever.
      environment: variables.
      folder: where it is typed; empty where this process is.
    """

    words: list
    watched: str
    said: str
    at: int | None = None
    fault: str = "kill"
    removed: str = ""
    rival: list = field(default_factory=list)
    after: float | None = None
    limit: int | None = None
    clock: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    folder: str = ""


class Moments:
    """The audit hook: counts moments and makes the fault happen."""

    def __init__(self, command, file):
        self.command = command
        self.file = file
        self.count = 0
        self.inside = False

    def __call__(self, event, arguments):
        if self.inside or (event != "open" and event not in EVENTS):
            return
        self.inside = True
        try:
            path = self._path(event, arguments)
            if path is not None:
                if self.command.limit is None:  # which it would meet itself
                    os.write(self.file, f"{event} {path}\n".encode(errors="backslashreplace"))
                self._befall(self.count, path)
                self.count += 1
        finally:
            self.inside = False

    def _path(self, event, arguments):
        """The path below the watched folder that an event changes, else None."""
        if event == "open":
            flags = arguments[2] or 0
            if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return None
        name = arguments[0]
        if isinstance(name, int):
            return None
        name = os.fsdecode(name)
        folder = arguments[-1] if event in ("os.remove", "os.rmdir") else -1
        if isinstance(folder, int) and folder >= 0:
            name = Path(f"/proc/self/fd/{folder}").readlink() / name
        path = os.path.abspath(name)  # noqa: PTH100 - links stay
        return path if path.startswith(self.command.watched + os.sep) else None

    def _befall(self, moment, path):
        command = self.command
        if command.at is None or moment < command.at:
            return
        if command.fault not in ("kill", "stop", "remove"):
            number = getattr(errno, command.fault)
            raise OSError(number, os.strerror(number), path)
        if moment > command.at:
            return
        if command.fault == "remove":
            shutil.rmtree(command.removed, ignore_errors=True)
        else:
            os.kill(os.getpid(), signal.SIGKILL if command.fault == "kill" else signal.SIGSTOP)


def set_clock(values):
    """Lets time.time say what it is told."""
    left = list(values)
    time.time = lambda: left.pop(0) if len(left) > 1 else left[0]


def become(command):
    """What a fork does: the command, to its end."""
    os.setsid()
    said = Path(command.said)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(said / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - closed with the process
    file = os.open(said / "moments", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.environ.update(command.environment)
    if command.folder:
        os.chdir(command.folder)
    if command.clock:
        set_clock(command.clock)
    if command.limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command.limit, command.limit))
    sys.addaudithook(Moments(command, file))
    from scripts.command_line import run

    try:
        status = run(command.words)
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as stopped:
        status = stopped.code or 0
    except BaseException:  # noqa: BLE001 - the fork has to end as what it is, not as its parent
        traceback.print_exc()
        status = 99
    os._exit(status)


def begin(command):
    """Forks; gives the process number."""
    process = os.fork()
    if process == 0:
        become(command)
    return process


def wait_for(process, seconds=None):
    """The status of a process that ended or stopped; None where it has not within the time."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        found, status = os.waitpid(process, os.WUNTRACED | (0 if end is None else os.WNOHANG))
        if found:
            return status
        if time.monotonic() > end:
            return None
        time.sleep(0.002)


def run(command):
    """Runs one command, its fault and its rival; gives what came of them."""
    began = time.monotonic()
    process = begin(command)
    status = None
    if command.after is not None:
        status = wait_for(process, command.after)
        if status is None:
            os.kill(process, signal.SIGKILL)
    if status is None:
        status = wait_for(process)
    answer = {}
    if os.WIFSTOPPED(status):
        said = Path(command.said) / "rival"
        said.mkdir(exist_ok=True)
        other = Command(command.rival, command.watched, str(said), environment=command.environment)
        rival = begin(other)
        ended = wait_for(rival, RIVAL_SECONDS)
        os.kill(process, signal.SIGCONT)
        status = wait_for(process)
        ended = wait_for(rival) if ended is None else ended
        answer["rival"] = os.waitstatus_to_exitcode(ended)
    answer["status"] = os.waitstatus_to_exitcode(status)
    answer["seconds"] = time.monotonic() - began
    answer["orphans"] = has_orphans(process)
    return answer


def has_orphans(group):
    """Whether processes that a command started go on after its end; they are ended."""
    for _ in range(500):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.01)
    os.killpg(group, signal.SIGKILL)
    return True


def load(with_tensorflow):
    """Imports what commands import when they need it."""
    for package in ("checkpoints", "exporters", "finetune", "scripts.commands"):
        folders = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folders, f"{package}."):
            importlib.import_module(module.name)
    for name in (
        "PIL.Image",
        "cramjam",
        "google_crc32c",
        "jinja2",
        "requests",
        "scripts.command_line",
    ):
        importlib.import_module(name)
    if with_tensorflow:
        from exporters.runtime import load_tensorflow
        from finetune.slim import load_slim

        # Threads start with the first session only.
        load_tensorflow()
        load_slim()
    gc.freeze()


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load(with_tensorflow="tensorflow" in sys.argv)
    for line in sys.stdin:
        answer = run(Command(**json.loads(line)))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
