"""Where a build writes: beside its output, which is there when all is written or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from checkpoints.files import atomic_directory
from finetune.cloud.paths import CloudPath, Place

_SCRATCH = "spool"


@dataclass(frozen=True)
class Workplace:
    """Places that a build writes to.

    Attributes:
      directory: on this machine, for dataset.json and what else is small.
      shards: where the shards go.
      scratch: what is gone at the end; nobody has made it yet.
    """

    directory: Path
    shards: Place
    scratch: Place


@contextmanager
def workplace(out: Place, overwrite: bool) -> Iterator[Workplace]:
    """Gives places to write to; when the block ends without an error `out` is what lies there.

    Raises:
      OutputExistsError: `out` is there and may not be replaced.
      OutputError: it cannot be written.
    """
    if isinstance(out, CloudPath):
        from finetune.cloud.output import cloud_directory

        with cloud_directory(out, overwrite) as (directory, scratch):
            yield Workplace(directory, scratch / "shards", scratch / "jobs")
        return
    with atomic_directory(out, overwrite) as partial:
        yield Workplace(partial, partial, partial / _SCRATCH)
        shutil.rmtree(partial / _SCRATCH)
