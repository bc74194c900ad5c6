"""What `convert` starts from: which file is the graph, and which files are the variables."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.errors import GraphError, NotFoundError, UnsupportedError, UsageError
from checkpoints.family import Family, resolve
from checkpoints.files import is_same_place
from checkpoints.progress import SILENT, Progress
from checkpoints.scopes import in_scope
from exporters.values import Values, header_of

if TYPE_CHECKING:
    from exporters.graph import Graph

RUN_GRAPH = "inference_graph.pb"
RUN_SIGNATURE = "signature.json"
_GRAPH_ENDINGS = frozenset({".pb", ".pbtxt", ".meta"})


@dataclass(frozen=True)
class Source:
    """Where a conversion starts.

    Attributes:
      graph: a file with the graph, or a graph in memory; None where there is none.
      family: the files of the checkpoint; None where the graph's own constants are all.
    """

    graph: Path | Graph | Any
    family: Family | None

    @property
    def step(self) -> int | None:
        """The training step in the checkpoint's name."""
        return None if self.family is None else self.family.step


def find_source(
    source: str | Path | Graph,
    graph: str | Path | Graph | Any = None,
    checkpoint: str | Path | None = None,
    progress: Progress = SILENT,
) -> Source:
    """Finds graph and variables.

    Args:
      source: a checkpoint in any spelling, a graph file, a SavedModel's directory, a run, or a
        graph in memory.
      graph: the graph where `source` is a checkpoint without one of its own.
      checkpoint: the variables where `source` is a graph.
      progress: told which files were taken.

    Raises:
      NotFoundError: something is not there.
      GraphError: the file is neither a graph nor a checkpoint.
    """
    if not isinstance(source, str | Path):
        return Source(source, None if checkpoint is None else _resolved(checkpoint, progress))
    path = Path(source)
    if checkpoint is not None:
        return Source(graph if graph is not None else path, _resolved(checkpoint, progress))
    if graph is None and is_graph(path):
        return Source(path, variables_of_saved_model(path))
    family = _checkpoint_of(source, progress, any_graph=graph is None)
    if family is None:
        return Source(path, None)
    if graph is None:
        graph = _graph_for(family, progress)
    return Source(graph, family)


def refuse_source(source: Source, destination: Path, form: str) -> None:
    """Raises UsageError where writing would replace a file that is read.

    Args:
      source: where the conversion starts.
      destination: what is to be written; a directory for a SavedModel.
      form: the name of its form. Whether a checkpoint may stand in the place of the one it is
        made from is for its writer to say.
    """
    family = source.family
    is_checkpoint = form in ("v1", "v2")
    is_of_variables = is_checkpoint or form in ("npz", "safetensors")
    own = [] if family is None else [*family.files, *filter(None, [family.meta])]
    if is_of_variables and family is not None and is_same_place(family.prefix, destination):
        return
    if isinstance(source.graph, str | Path):
        graph = Path(source.graph)
        own += [file for file in graph.rglob("*") if file.is_file()] if graph.is_dir() else [graph]
    written = [destination]
    if is_checkpoint:
        written += [Path(f"{destination}{ending}") for ending in (".index", ".meta")]
    for file in own:
        for path in written:
            is_inside = Path(os.path.realpath(path)) in Path(os.path.realpath(file)).parents
            if is_same_place(file, path) or (form == "saved-model" and is_inside):
                raise UsageError(
                    f"{destination}: {file} would be replaced, which is the source"
                    f"{'' if len(own) == 1 else ' or a part of it'}.",
                    expected="an output beside the source",
                    received=str(destination),
                    next_step="Name another output.",
                )


def run_directory(family: Family) -> Path | None:
    """The run a checkpoint belongs to: the directory it lies in, or the one above RUN/best."""
    for directory in (family.prefix.parent, family.prefix.parent.parent):
        if (directory / RUN_SIGNATURE).is_file() and (directory / RUN_GRAPH).is_file():
            return directory
    return None


def graph_wanted(source: Source, values: Values) -> GraphError:
    """What to say where variables alone are there and a graph is needed."""
    nets = _nets_of(values)
    label = "The source" if source.family is None else str(source.family.prefix)
    return GraphError(
        f"{label} holds variables only, and a model needs a graph too.",
        expected="a .meta of the same name beside it, --graph FILE, or --net NAME --classes N",
        received=f"{len(values)} variables"
        + (f" with the names of {' or '.join(nets)}" if nets else ", no net of slimtune's"),
        next_step=f"Add {next(iter(nets.values()))}"
        + (", or name the one of these nets that is as wide." if len(nets) > 1 else ".")
        if nets
        else "Add --graph FILE (.meta, .pb or .pbtxt).",
    )


def _nets_of(values: Values) -> dict[str, str]:
    """Registered nets whose scope the variables stand in -> the flags that give their graph."""
    from checkpoints.published import NETS

    scopes = {name.partition("/")[0] for name in values if "/" in name}
    found = {}
    for net in NETS.values():
        if net.scope in scopes:
            classes = _classes_of(values, net.main_head)
            found[net.name] = f"--net {net.name} --classes {classes or 'N'}"
    return found


def _classes_of(values: Values, head: str) -> int | None:
    """The length of the biases, or the last dimension of the weights, below a head's scope."""
    for name in values:
        if in_scope(name, head) and name.rpartition("/")[2] in ("biases", "weights"):
            shape = header_of(values, name).shape
            return shape[-1] if shape else None
    return None


def is_graph(path: Path) -> bool:
    """Whether a path is a graph by its name: .pb, .pbtxt, or the directory of a SavedModel."""
    if path.is_dir():
        return (path / "saved_model.pb").is_file() or (path / "saved_model.pbtxt").is_file()
    return path.suffix in _GRAPH_ENDINGS - {".meta"} and path.is_file()


def variables_of_saved_model(path: Path) -> Family | None:
    """The variables of a SavedModel, given by its directory or graph file; None without any."""
    directory = path if path.is_dir() else path.parent
    if not (directory / "variables").is_dir() or not is_graph(directory):
        return None
    return resolve(directory / "variables" / "variables")


def _checkpoint_of(source: str | Path, progress: Progress, any_graph: bool) -> Family | None:
    """The checkpoint; None where the file is a graph instead."""
    try:
        return _resolved(source, progress)
    except UnsupportedError as error:
        from exporters.graph import read_graph

        if not any_graph:
            raise
        # A graph may have any name; reading it tells, and otherwise says what the file is.
        try:
            read_graph(source)
        except GraphError:
            raise GraphError(
                f"{source} is neither a checkpoint nor a graph.",
                expected="a checkpoint, a .meta, .pb or .pbtxt, a SavedModel, or a run directory",
                received=error.received,
                next_step=error.next_step,
            ) from error
        return None
    except NotFoundError as error:
        if Path(source).suffix == ".meta" and Path(source).is_file():
            if not _has_variables(Path(source)):
                return None
            raise NotFoundError(
                error.message,
                expected=error.expected,
                received=error.received,
                next_step="Say where the variables are: --checkpoint C",
            ) from error
        raise


def _has_variables(path: Path) -> bool:
    """Whether a graph's values lie elsewhere; one that cannot be read is taken to have some."""
    from exporters.graph import read_graph
    from exporters.ops import VARIABLES

    try:
        graph = read_graph(path)
    except GraphError:
        return True
    return any(node.op in VARIABLES for node in graph.graph_def.node)


def _resolved(path: str | Path, progress: Progress) -> Family:
    family = resolve(path)
    if family.said is not None:
        progress.say(f"Checkpoint {family.prefix}: {family.said}.")
    return family


def _graph_for(family: Family, progress: Progress) -> Path | None:
    run = run_directory(family)
    if run is not None:
        progress.say(f"Graph {run / RUN_GRAPH}: the run's net as it was built for evaluation.")
        return run / RUN_GRAPH
    return family.meta
