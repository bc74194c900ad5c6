"""How a checkpoint gets its name: written beside its place, and what stood there goes for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkpoints.bundle import data_path, index_path
from checkpoints.errors import OutputExistsError, UsageError
from checkpoints.family import Family, at_prefix
from checkpoints.family_files import DATA_FILE, META, beside, has_index, is_table, members
from checkpoints.files import directory_beside, placing, refuse_existing
from checkpoints.progress import Progress
from checkpoints.temporary_names import leftovers


class Place:
    """Where a checkpoint, or a file of arrays, is to stand.

    Attributes:
      path: the prefix, or the file.
    """

    def __init__(self, path: str | os.PathLike[str], version: str, *, overwrite: bool) -> None:
        """Looks at what is there.

        Args:
          path: the prefix, or the file.
          version: what is written: "v1", "v2", "npz" or "safetensors".
          overwrite: whether what is there may be replaced.

        Raises:
          OutputExistsError: something is there, and may not be replaced.
          UsageError: the path has no name.
        """
        self.path = Path(path)
        if not self.path.name:
            raise UsageError("A checkpoint needs a name.", received=path)
        self._is_family = version in ("v1", "v2")
        self._overwrite = overwrite
        is_v2 = version == "v2"
        self._targets = (
            [index_path(self.path), data_path(self.path, 0, 1)] if is_v2 else [self.path]
        )
        if is_v2 and self.path.is_dir():
            # Its files would lie beside the directory, and whoever names it would get the one
            # or the other.
            refuse_existing(self.path, overwrite)
        for target in (*self._targets, *([beside(self.path, META)] if self._is_family else [])):
            # Directories, pipes and devices stay, whatever is asked for.
            refuse_existing(target, overwrite=True)
        known = self._in_the_way()
        # What a write that was killed had begun to put there is no checkpoint yet; the same
        # command completes it.
        is_half = not has_index(self.path) and not is_table(self.path) and leftovers(self.path)
        if not is_half:
            self._refuse(known)
        self._may_go = frozenset(known)

    @contextmanager
    def beside(self) -> Iterator[Path]:
        """The checkpoint's name in a new directory beside its place, which goes in the end.

        Raises:
          OutputError: the operating system refuses to write there.
        """
        with directory_beside(self.path) as directory:
            yield directory / self.path.name

    def take(self, written: Family, progress: Progress) -> Family:
        """Moves files here, an index last, and removes what stood here.

        Args:
          written: what was written beside this place, under the same name.
          progress: told of a .meta that goes without another in its place.

        Raises:
          OutputExistsError: somebody else has put something here meanwhile.
        """
        with placing(self.path):
            old = self._in_the_way()
            self._refuse([file for file in old if file not in self._may_go])
            # A lone file that takes the place of a lone file is there all the time.
            if self._is_family and not (old == [self.path] and written.is_lone_file):
                for file in old:
                    file.unlink(missing_ok=True)
            if written.meta is not None:
                written.meta.replace(beside(self.path, META))
            for file in reversed(written.files):
                file.replace(self.path.with_name(file.name))
            placed = at_prefix(self.path) if self._is_family else None
        meta = beside(self.path, META)
        if self._is_family and meta in old and written.meta is None:
            progress.say(f"Removed {meta}: it was the graph of what is replaced.")
        return placed or Family(self.path, written.kind, (self.path,), None)

    def _in_the_way(self) -> list[Path]:
        """What one of this name replaces, in an order in which it may go: with the graph's .meta
        left alone, or the .data files, there is no checkpoint, so that none is ever mixed.
        """
        targets = [target for target in self._targets if os.path.lexists(target)]
        if not self._is_family:
            return targets
        files = list(dict.fromkeys([*members(self.path), *targets]))
        data = [file for file in files if DATA_FILE.fullmatch(file.name)]
        meta = [path for path in [beside(self.path, META)] if os.path.lexists(path)]
        return [*(file for file in files if file not in data), *meta, *data]

    def _refuse(self, in_the_way: list[Path]) -> None:
        if not in_the_way or self._overwrite:
            return
        is_graph = [file.name for file in in_the_way] == [f"{self.path.name}{META}"]
        raise OutputExistsError(
            f"{in_the_way[0]} is already there and would count as the graph of {self.path}."
            if is_graph
            else f"The checkpoint {self.path} is already there.",
            received=", ".join(file.name for file in in_the_way),
            next_step="Add --overwrite to replace it, or name another output.",
        )
