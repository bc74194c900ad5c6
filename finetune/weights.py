"""Which weights a net starts from: a path in any spelling, a published name, `none` or `sample`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.errors import DownloadError, NotFoundError, PlanError, UsageError, near_names
from checkpoints.mapping import SavedVariables
from checkpoints.progress import SILENT, Progress
from checkpoints.published import (
    CHECKPOINTS,
    NETS,
    Net,
    PublishedCheckpoint,
    checkpoints_for,
    get_checkpoint,
    get_net,
)
from finetune.nets.file_options import NetOptions
from finetune.nets.graph_net import is_graph_file, read_graph_net
from finetune.nets.own_net import read_own_net
from finetune.preprocessing import Preprocessing

NO_OPTIONS = NetOptions()
NONE = "none"
DEFAULT_NET = "inception_v3"


@dataclass(frozen=True)
class Weights:
    """A net and what its variables start from.

    Attributes:
      net: the net's record.
      name: the checkpoint as a person would name it, or None where everything is initialised.
      path: a spelling that checkpoints.open takes, or None.
      published: the record of a published checkpoint, or None.
      values: the values by name, where they are the net's own, as of a net from a file.
      asked: the preprocessing that was asked for in the place of the usual one, or None.
    """

    net: Net
    name: str | None
    path: Path | None
    published: PublishedCheckpoint | None
    values: SavedVariables | None = None
    asked: str | None = None

    @property
    def restored_from(self) -> Path | Mapping[str, Any] | None:
        """Where values come from: a path, the values, or None."""
        return self.path if self.values is None else self.values

    @property
    def is_restored(self) -> bool:
        """Whether there are values to restore."""
        return self.restored_from is not None

    @property
    def image_size(self) -> int:
        """Height and width that the published weights want, in pixels; else the net's own."""
        return self._wants.image_size

    @property
    def preprocessing(self) -> str:
        """The one asked for; else what the published weights want; else the net's own."""
        return self.asked or self._wants.preprocessing

    @property
    def _wants(self) -> Net | PublishedCheckpoint:
        """A net's published weights may want something else than the net was designed for."""
        published = [self.published] if self.published else checkpoints_for(self.net)
        return published[0] if published else self.net

    @contextmanager
    def open(self) -> Iterator[Any]:
        """The opened checkpoint, or None where there is none."""
        if self.values is not None:
            yield self.values
            return
        if self.path is None:
            yield None
            return
        with checkpoints.open(self.path) as saved:
            yield saved


def find_weights(
    net: str | None,
    checkpoint: str | None,
    options: NetOptions = NO_OPTIONS,
    *,
    progress: Progress = SILENT,
) -> Weights:
    """Resolves `--net` and `--checkpoint`; a published checkpoint is downloaded into the cache.

    Args:
      net: name of a net, a file of a graph, or "module:function"; left out, the one that goes with a published checkpoint, else
        Inception-v3.
      checkpoint: a path, a published name, `sample` or `none`; left out, the net's published one.
      options: what was said of a net that is not registered; the preprocessing of any.
      progress: where the download and the choices made are told.

    Raises:
      PlanError: net and checkpoint do not belong together.
      NotFoundError: nothing has this name.
      DownloadError: the published file cannot be had; the message says how else.
    """
    if net is None:
        net = CHECKPOINTS[checkpoint].net if checkpoint in CHECKPOINTS else DEFAULT_NET
    if is_graph_file(net):
        return _of_file(net, checkpoint, options, progress)
    if ":" in net and net not in NETS:
        record: Net = read_own_net(net, options, progress)
    elif replace(options, preprocessing=None).given():
        given = replace(options, preprocessing=None).given()
        raise UsageError(
            f"{', '.join(given)}: the net {net} is registered, and its record says that.",
            next_step="Leave it out, or name a file or module:function with --net.",
        )
    else:
        record = get_net(net)
        if options.preprocessing is not None:
            kind: Any = Preprocessing(options.preprocessing, record.image_size).name
            record = replace(record, preprocessing=kind)
    asked = options.preprocessing
    if checkpoint is None:
        choices = checkpoints_for(record)
        if not choices:
            raise PlanError(
                f"No checkpoint is published for {record.name}.",
                next_step="Name one with --checkpoint, or initialise everything with "
                "--checkpoint none.",
            )
        checkpoint = choices[0].name
    if checkpoint == NONE:
        return Weights(record, None, None, None, asked=asked)
    if checkpoint not in CHECKPOINTS:
        return Weights(record, checkpoint, _existing(checkpoint), None, asked=asked)

    published = get_checkpoint(checkpoint)
    if published.net != record.name:
        raise PlanError(
            f"The published checkpoint {published.name} does not go with net {record.name}.",
            expected=f"--net {published.net}",
            received=f"--net {record.name}",
            next_step=f"Leave --net out, or name a checkpoint of {record.name}: "
            + ", ".join(choice.name for choice in checkpoints_for(record)),
        )
    path = _published_path(published, progress)
    return Weights(record, published.name, path, published, asked=asked)


def _of_file(net: str, checkpoint: str | None, options: NetOptions, progress: Progress) -> Weights:
    """The weights of a frozen graph are its own; a .meta may have a checkpoint named."""
    if not Path(net).exists():
        raise NotFoundError(
            f"{net} is not there.",
            expected="a file with a graph: .pb, .pbtxt or .meta",
            received=f"--net {net}",
            next_step="Correct the path; slimtune nets lists the registered nets.",
        )
    if checkpoint is not None and Path(net).suffix != ".meta":
        raise PlanError(
            f"{net} holds its own weights.",
            received=f"--checkpoint {checkpoint}",
            next_step="Leave --checkpoint out, or name a registered net with it.",
        )
    record = read_graph_net(net, options, checkpoint, progress)
    return Weights(record, net, None, None, record.values)


def _existing(checkpoint: str) -> Path:
    """The path as given; a word that is neither a path nor a name gets the names."""
    path = Path(checkpoint)
    if path.parent == Path() and not path.exists() and not any(Path().glob(f"{path.name}*")):
        near = near_names(checkpoint, list(CHECKPOINTS))
        raise NotFoundError(
            f"There is no checkpoint {checkpoint!r}: neither a file here nor a published name.",
            expected=f"a path, {NONE}, or a published name"
            + (f", as {', '.join(near)}" if near else ""),
            received=checkpoint,
            next_step="slimtune nets lists the published checkpoints.",
        )
    return path


def _published_path(published: PublishedCheckpoint, progress: Progress) -> Path:
    from checkpoints.downloading import download

    try:
        return download(published.name, progress=progress).path
    except DownloadError as error:
        raise DownloadError(
            error.message,
            expected=error.expected,
            received=error.received,
            next_step=f"{error.next_step or 'Try again.'} The small base that ships with slimtune "
            "needs no download: --checkpoint sample.",
        ) from error
