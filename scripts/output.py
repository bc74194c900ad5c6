"""What a verb shows: one JSON object on stdout, or text for people; progress on stderr."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from checkpoints.errors import OutputError
from checkpoints.progress import Task
from checkpoints.temporary_names import without_temporary_names

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

QUIET_SECONDS = 10.0
"""Without a terminal, progress is at most one line in so many seconds."""


_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Text for people: control characters, which would steer a terminal, are spelled out.

    New lines stay; where one stands in a name, `one_line` comes first.
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def one_line(name: object, width: int | None = None) -> str:
    """A name or path as it stands in a row.

    New lines are spelled out too; the middle is left out beyond `width`.
    """
    text = printable(str(name)).replace("\n", "\\n")
    if width is None or len(text) <= width:
        return text
    half = (width - 1) // 2
    return f"{text[: width - 1 - half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"


def json_line(value: Mapping[str, Any]) -> str:
    """JSON as its standard has it, in one line: what is no number (NaN, infinity) is null."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)
    return f"{text}\n"


@contextmanager
def to_stdout() -> Iterator[None]:
    """Sees that what is printed has got to where it should.

    Raises:
      OutputError: it has not, as on a full disk.
      BrokenPipeError: nobody reads it any more.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"Standard output cannot be written: {error.strerror or error}.",
            error,
            next_step="Make room where it goes, or send it elsewhere.",
        ) from error


class Output:
    """The two streams of one verb. Implements checkpoints.progress.Progress on stderr."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._console: Console | None = None
        self._bars: RichProgress | None = None

    @property
    def console(self) -> Console:
        """The rich console on stdout."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        return self._console

    def result(self, value: dict[str, Any], *renderables: RenderableType) -> None:
        """Prints `value` under --json, else the renderables, one below the other."""
        with to_stdout():
            if self.as_json:
                sys.stdout.write(json_line(value))
                return
            for renderable in renderables:
                if isinstance(renderable, str):
                    self.console.print(printable(renderable), markup=False)
                else:
                    self.console.print(renderable)

    def next(self, *commands: str) -> None:
        """Prints the commands that make sense now."""
        if not self.as_json:
            with to_stdout():
                for index, command in enumerate(commands):
                    word = "Next:" if index == 0 else "  or "
                    self.console.print(one_line(f"{word} {command}"), markup=False)

    def say(self, text: str) -> None:
        """One line on stderr, above the bars where there are any."""
        text = printable(without_temporary_names(text))
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    @contextmanager
    def task(self, description: str, total: int | None, unit: str = "") -> Iterator[Task]:
        """A bar on a terminal; elsewhere a line every ten seconds."""
        description = one_line(description)
        if not sys.stderr.isatty():
            yield _Lines(description, total, unit)
            return
        if self._bars is None:
            self._bars = _bars()
            self._bars.start()
        bars = self._bars
        bar = bars.add_task(description, total=total, unit=unit, text="")
        try:
            yield _Bar(bars, bar)
        finally:
            bars.remove_task(bar)
            if not bars.task_ids:
                bars.stop()
                self._bars = None


def _bars() -> RichProgress:
    """The bars of all tasks under way; they vanish when they are done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Task as RichTask

    class Counts(ProgressColumn):
        """What is done of what, in bytes or in the task's unit."""

        def __init__(self) -> None:
            super().__init__()
            self._bytes, self._counts = DownloadColumn(), MofNCompleteColumn()

        def render(self, task: RichTask) -> RenderableType:
            if task.total is None and not task.completed:
                return ""
            if task.fields["unit"] == "bytes":
                return self._bytes.render(task)
            return self._counts.render(task).append(f" {task.fields['unit']}")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        Counts(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
        transient=True,
    )


class _Bar:
    def __init__(self, progress: RichProgress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, amount: int = 1) -> None:
        self._progress.advance(self._task, amount)

    def note(self, text: str) -> None:
        self._progress.update(self._task, text=text)


class _Lines:
    def __init__(self, description: str, total: int | None, unit: str) -> None:
        self._description = description
        self._total = total
        self._unit = unit
        self._done = 0
        self._text = ""
        self._last = time.monotonic()

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        now = time.monotonic()
        if now - self._last >= QUIET_SECONDS:
            self._last = now
            of = "" if self._total is None else f" of {self._total}"
            line = f"{self._description}: {self._done}{of} {self._unit} {self._text}"
            sys.stderr.write(line.rstrip() + "\n")
            sys.stderr.flush()

    def note(self, text: str) -> None:
        self._text = text


def _finite(value: Any) -> Any:
    """A value for JSON with null where numbers are none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if value is None or isinstance(value, str | int):
        return value
    return _finite(_plain(value))


def _plain(value: Any) -> Any:
    """What json cannot write by itself: paths, numpy scalars and arrays, tuples of names."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError(f"{type(value).__name__} does not go into JSON")
