"""What --beam-options says."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.cores import available_cores
from checkpoints.errors import UsageError
from finetune.beam import load_beam

_HERE = frozenset([None, "DirectRunner", "FnApiRunner"])
_IN_MEMORY = "in_memory"


@dataclass(frozen=True)
class BeamOptions:
    """How pipelines are run.

    Attributes:
      arguments: as on Beam's command line.
      processes: worker processes of this machine; 0: the work is done in this process; None:
        Beam's options name another engine.
    """

    arguments: tuple[str, ...]
    processes: int | None


def check_runner(name: str, beam_options: str) -> None:
    """Raises UsageError where `--runner` and `--beam-options` do not go together."""
    if name not in ("local", "beam"):
        raise UsageError(
            "--runner is neither local nor beam.", expected="local or beam", received=repr(name)
        )
    if beam_options and name == "local":
        raise UsageError(
            "--beam-options are for Apache Beam.",
            received=f"--beam-options {beam_options!r} with --runner local",
            next_step="Add --runner beam, or leave --beam-options out.",
        )


def read_options(
    text: str = "", processes: int | None = None, default_processes: int | None = None
) -> BeamOptions:
    """Reads Beam's options.

    Args:
      text: options of Beam's pipelines, as a shell would read them.
      processes: worker processes on this machine; None: as `text` says.
      default_processes: those where nobody says how many; None: one a core.

    Raises:
      UsageError: they cannot be read, contradict each other, or nobody knows one.
      UnsupportedError: Beam is not installed.
    """
    load_beam()
    told = io.StringIO()
    try:
        arguments = shlex.split(text)
        with contextlib.redirect_stderr(told):
            given = parse(arguments).get_all_options(drop_default=True)
    except (ValueError, SystemExit) as err:
        # argparse prints how it is used, and then what is wrong.
        reason = told.getvalue().rpartition("error: ")[2].strip()
        raise UsageError(
            f"--beam-options cannot be read: {reason or err}.",
            expected="options of Apache Beam's pipelines, such as --runner=FlinkRunner",
            received=text,
            next_step="docs/beam.md has examples.",
        ) from err
    if given.get("runner") not in _HERE:
        if processes is not None:
            raise UsageError(
                "--processes counts worker processes of this machine.",
                received=f"--processes {processes} and --runner={given['runner']}",
                next_step="Say in --beam-options how many workers there shall be.",
            )
        return BeamOptions(tuple(arguments), None)
    _refuse_unknown(arguments)
    # It is Beam's default, and stands among what is given in no other way.
    if {_IN_MEMORY, f"--direct_running_mode={_IN_MEMORY}"} & set(arguments):
        return BeamOptions(tuple(arguments), 0)
    found = processes or given.get("direct_num_workers") or default_processes
    return BeamOptions(tuple(arguments), found or available_cores())


def parse(arguments: Sequence[str]) -> Any:
    """Beam's PipelineOptions of its command line."""
    from apache_beam.options.pipeline_options import PipelineOptions

    # An empty list; None would be the command line of this process.
    return PipelineOptions(list(arguments))


def _refuse_unknown(arguments: list[str]) -> None:
    """Beam itself passes over what it does not know."""
    import argparse

    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(allow_abbrev=False, conflict_handler="resolve")
    for options in PipelineOptions.__subclasses__():
        options._add_argparse_args(parser)
    _, unknown = parser.parse_known_args(arguments)
    if unknown:
        raise UsageError(
            f"Apache Beam has no option {unknown[0]}.",
            expected="options of Apache Beam's pipelines, such as --runner=FlinkRunner",
            received=" ".join(unknown),
            next_step="docs/beam.md has examples.",
        )
