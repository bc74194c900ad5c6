"""What is measured: a case is one job done by slimtune and by its peers."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """A whole process, start to end.

    Attributes:
      arguments: the program and its arguments.
    """

    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One function call in a process of its own; imports and preparation are not timed.

    Attributes:
      function: "module:function", or "file.py:function" for an interpreter that does not know
        this project. Called with `arguments` it prepares the step and returns it: a function
        without arguments whose result goes into JSON.
      arguments: what the function is called with.
      repeat: how often the step is called and timed in one process, after one call that is
        not timed; the median counts.
      interpreter: the Python that runs it; None: the one that runs now.
    """

    function: str
    arguments: tuple[str, ...] = ()
    repeat: int = 1
    interpreter: str | None = None


Work = Command | Step


@dataclass(frozen=True)
class Contender:
    """Who does the job, and how.

    Attributes:
      name: as it stands in tables.
      work: what is run.
    """

    name: str
    work: Work


@dataclass(frozen=True)
class Peer(Contender):
    """Somebody slimtune is compared with.

    Attributes:
      target: how many times slimtune's time the peer should at least take, or None.
      memory_target: how many times slimtune's peak memory the peer should at least hold, or None.
      times: how often what is timed goes into the whole job. A peer that takes many minutes runs
        a part of a job that is made of like parts; tables say so.
    """

    target: float | None = None
    memory_target: float | None = None
    times: int = 1


Check = Callable[[Mapping[str, str]], str]
"""Contender's name -> what it printed (a Step: its result as JSON) gives a phrase that says what
was found equal. Raises VerificationError where the contenders' results differ."""


@dataclass(frozen=True)
class Case:
    """One job.

    Attributes:
      name: short, unique in its group.
      title: the job in a few words.
      ours: how slimtune does it.
      peers: how others do it.
      check: proves that all came to the same result; a fast wrong answer fails.
      in_quick: whether it belongs to the short form of its group too.
      most_rounds: as many rounds at most, for a peer that takes minutes.
      warm_up: whether a round that does not count comes first. Steps that take minutes do
        without: the first call in each process is not timed as it is.
      items: how many things a run of the job deals with, and what they are called: tables tell
        how many that makes in a second. None: the time itself says it.
      skipped: why the case cannot be measured here, or None.
    """

    name: str
    title: str
    ours: Contender
    peers: tuple[Peer, ...]
    check: Check | None = None
    in_quick: bool = True
    most_rounds: int | None = None
    warm_up: bool = True
    skipped: str | None = None
    items: tuple[int, str] | None = None

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """All of them, slimtune first."""
        return (self.ours, *self.peers)


def slimtune(*arguments: str | Path) -> Command:
    """The command line as a user types it: the installed script, where there is one."""
    script = Path(sysconfig.get_path("scripts")) / "slimtune"
    program = (str(script),) if script.is_file() else (sys.executable, "-m", "scripts")
    return Command((*program, *map(str, arguments)))


def python(module: str, *arguments: str | Path) -> Command:
    """A module of this project run as a program by the Python that runs now."""
    return Command((sys.executable, "-m", module, *map(str, arguments)))
