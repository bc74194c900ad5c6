"""What came out: runs, medians, ratios, and whether targets were met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from scripts.bench.case import Case, Contender, Peer, Step
from scripts.bench.process import Run, step_command


@dataclass
class ContenderResult:
    """The runs of one contender; a failed one keeps those it had and says why it stopped."""

    contender: Contender
    runs: list[Run] = field(default_factory=list)
    failure: str | None = None

    @property
    def measured(self) -> bool:
        """Whether there are figures to show."""
        return bool(self.runs) and self.failure is None

    @property
    def times(self) -> int:
        """How often what was timed goes into the job."""
        return self.contender.times if isinstance(self.contender, Peer) else 1

    @property
    def seconds(self) -> float:
        """Median wall time of the whole job."""
        return self.times * median(run.seconds for run in self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest run of the whole job, in seconds."""
        times = [self.times * run.seconds for run in self.runs]
        return min(times), max(times)

    @property
    def peak_bytes(self) -> int:
        """Median peak memory."""
        return round(median(run.peak_bytes for run in self.runs))

    def as_json(self, role: str) -> dict[str, Any]:
        """Every run, and what follows from them."""
        work = self.contender.work
        command = step_command(work) if isinstance(work, Step) else work
        value: dict[str, Any] = {
            "name": self.contender.name,
            "role": role,
            "kind": "step" if isinstance(work, Step) else "process",
            "command": list(command.arguments),
            "times": self.times,
            "runs": [asdict(run) for run in self.runs],
            "failure": self.failure,
        }
        if self.runs:
            fastest, slowest = self.spread
            value |= {
                "median_seconds": self.seconds,
                "min_seconds": fastest,
                "max_seconds": slowest,
                "median_peak_bytes": self.peak_bytes,
            }
        return value


@dataclass(frozen=True)
class Ratio:
    """A peer's figures over slimtune's: above 1, slimtune needs less.

    Attributes:
      peer: whose.
      time: peer's median time over ours.
      memory: peer's median peak memory over ours.
    """

    peer: Peer
    time: float
    memory: float

    @property
    def met(self) -> bool | None:
        """Whether the peer's targets are reached; None where it has none."""
        wanted = [
            ratio >= target
            for ratio, target in (
                (self.time, self.peer.target),
                (self.memory, self.peer.memory_target),
            )
            if target is not None
        ]
        return all(wanted) if wanted else None


@dataclass
class CaseResult:
    """One case, measured.

    Attributes:
      group: the group it belongs to.
      case: what was measured.
      contenders: slimtune first, then the peers.
      equal: what the check found equal, or None where it failed or could not be made.
      check_failure: why the results are not the same, or None.
    """

    group: str
    case: Case
    contenders: list[ContenderResult]
    equal: str | None = None
    check_failure: str | None = None

    @property
    def ours(self) -> ContenderResult:
        """The runs of slimtune."""
        return self.contenders[0]

    @property
    def failures(self) -> list[str]:
        """Everything that went wrong, each with the contender's name."""
        told = [
            f"{result.contender.name}: {result.failure}"
            for result in self.contenders
            if result.failure is not None
        ]
        if self.check_failure is not None:
            told.append(f"The results differ: {self.check_failure}")
        return told

    def per_second(self, result: ContenderResult) -> float | None:
        """How many of the case's items a contender deals with in a second; None: not counted."""
        if self.case.items is None or not result.measured:
            return None
        return self.case.items[0] / result.seconds

    def ratio(self, peer: ContenderResult) -> Ratio | None:
        """The comparison with one peer, or None where one of the two failed or results differ."""
        sound = self.ours.measured and peer.measured and self.check_failure is None
        if not sound or not isinstance(peer.contender, Peer):
            return None
        return Ratio(
            peer=peer.contender,
            time=peer.seconds / self.ours.seconds,
            memory=peer.peak_bytes / self.ours.peak_bytes,
        )

    @property
    def ratios(self) -> list[Ratio]:
        """The comparisons with all peers that can be compared with."""
        found = [self.ratio(peer) for peer in self.contenders[1:]]
        return [ratio for ratio in found if ratio is not None]

    def as_json(self) -> dict[str, Any]:
        """The whole case."""
        return {
            "group": self.group,
            "name": self.case.name,
            "title": self.case.title,
            "items": self.case.items and dict(zip(("count", "name"), self.case.items, strict=True)),
            "contenders": [
                result.as_json("peer" if index else "ours")
                | {"items_per_second": self.per_second(result)}
                for index, result in enumerate(self.contenders)
            ],
            "check": {
                "passed": None if self.case.check is None else self.equal is not None,
                "equal": self.equal,
                "failure": self.check_failure,
            },
            "ratios": [
                {
                    "peer": ratio.peer.name,
                    "time": ratio.time,
                    "memory": ratio.memory,
                    "target": ratio.peer.target,
                    "memory_target": ratio.peer.memory_target,
                    "met": ratio.met,
                }
                for ratio in self.ratios
            ],
        }


@dataclass
class Report:
    """One run of the benchmark.

    Attributes:
      date: ISO 8601 with the offset from UTC.
      machine: what it ran on, see scripts.bench.machine.
      repetitions: measured runs of each contender, after one that is not.
      cases: in the order they ran.
      left_out: name of a case that could not be measured here -> why.
    """

    date: str
    machine: dict[str, Any]
    repetitions: int
    cases: Sequence[CaseResult]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a program failed or results differ; a missed target is not a failure."""
        return any(case.failures for case in self.cases)

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured."""
        return {
            "date": self.date,
            "machine": self.machine,
            "repetitions": self.repetitions,
            "cases": [case.as_json() for case in self.cases],
            "left_out": dict(self.left_out),
        }
