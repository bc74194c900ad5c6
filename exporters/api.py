"""`exporters.freeze` and `exporters.thaw`: graph and variables to a .pb, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkpoints.api import Checkpoint
from checkpoints.files import refuse_existing
from checkpoints.progress import SILENT, Notes, Progress
from exporters.freezing import prepare
from exporters.graph import Graph, as_graph
from exporters.inspecting.endpoints import resolve_outputs
from exporters.keyed_values import KeyedValues
from exporters.metadata import Metadata, read_metadata
from exporters.proofs.proved import write_proved
from exporters.proofs.verdict import Verification, VerifyMode
from exporters.savers.writing import SaverVersion
from exporters.thawed.file import prepare_thawing, write_thawed


@dataclass(frozen=True)
class Frozen:
    """A frozen graph that was written.

    Attributes:
      path: the file.
      outputs: its output tensors.
      inputs: the tensors to feed.
      nodes: how many nodes it has.
      parameters: how many numbers its variables held.
      num_bytes: the size of the file.
      said: what was done to the graph, a line each.
      verification: what the proof of the file found.
    """

    path: Path
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    nodes: int
    parameters: int
    num_bytes: int
    said: tuple[str, ...]
    verification: Verification


def freeze(
    graph: Graph | Any,
    values: Mapping[str, Any] | Any,
    outputs: Sequence[str] = (),
    path: str | Path = "model.pb",
    *,
    inputs: Sequence[str] = (),
    metadata: Metadata | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),
    drop_checks: bool = False,
    keep_training: bool = False,
    verify: VerifyMode = "auto",
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Frozen:
    """Writes a graph with its variables as constants.

    Args:
      graph: a Graph, a GraphDef, a file that holds one, or a tf.Graph.
      values: the variables: a mapping from names to arrays, as checkpoints.open gives, or the
        tf.compat.v1.Session that holds them.
      outputs: names of nodes or tensors; left out, those of the metadata or signature, else a
        guess.
      path: the .pb to write.
      inputs: placeholders to feed; left out, all that the outputs need.
      metadata: what is written into it; left out, what the graph has already.
      set: placeholders that become constants: NAME=VALUE each, or a mapping.
      drop_checks: whether assertions, numeric checks and prints are taken out.
      keep_training: whether nodes that belong to training are left as they are.
      verify: how the written file is compared with its source before it gets its name; auto is
        structure, and run too where the graph was put into inference mode or cut.
      overwrite: whether a file that is there already is replaced.
      progress: told what was chosen and cut.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      GraphError: graph, outputs and variables do not fit, or the graph is in training mode.
      UnsupportedError: the file would be larger than a .pb can be.
      VerificationError: the written file is not what it should be; it is not left in place.
    """
    path = Path(path)
    refuse_existing(path, overwrite)
    whole = as_graph(graph)
    metadata = metadata or read_metadata(whole)
    if isinstance(values, Checkpoint) and values.objects is not None:
        values = KeyedValues(values, values.objects.keys)
    if not isinstance(values, Mapping):
        from exporters.live import session_values

        found = resolve_outputs(whole, outputs, metadata, progress)
        outputs = tuple(map(str, found))
        values = session_values(values, whole, found)
    frozen = prepare(
        whole,
        values,
        outputs=outputs,
        inputs=inputs,
        metadata=metadata,
        settings=set,
        drop_checks=drop_checks,
        keep_training=keep_training,
        progress=progress,
    )
    verification = write_proved(frozen, path, verify, overwrite=overwrite)
    return Frozen(
        path=path,
        outputs=tuple(map(str, frozen.outputs)),
        inputs=tuple(map(str, frozen.inputs)),
        nodes=frozen.num_nodes,
        parameters=frozen.parameters,
        num_bytes=path.stat().st_size,
        said=frozen.said,
        verification=verification,
    )


@dataclass(frozen=True)
class Thawed:
    """A checkpoint that was written of a frozen graph.

    Attributes:
      path: its prefix; PREFIX.meta lies beside it.
      version: "v1" or "v2".
      variables: the names of its variables.
      trainable: those that gradients change.
      inputs: the tensors to feed.
      outputs: the tensors that hold answers; empty where they are not known.
      parameters: how many numbers the variables hold.
      said: what was done and what cannot come back, a line each.
      verification: what the comparison with the frozen graph found.
    """

    path: Path
    version: SaverVersion
    variables: tuple[str, ...]
    trainable: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: int
    said: tuple[str, ...]
    verification: Verification


def thaw(
    graph: Graph | Any,
    path: str | Path = "model.ckpt",
    *,
    outputs: Sequence[str] = (),
    inputs: Sequence[str] = (),
    version: SaverVersion = "v2",
    metadata: Metadata | None = None,
    verify: VerifyMode = "auto",
    overwrite: bool = False,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Thawed:
    """Writes a frozen graph as a checkpoint and a .meta that TensorFlow restores and trains.

    Constants read through `x/read` or a former ReadVariableOp become variable x, and so do those
    that convolutions, products, batch norms and the like take as their weights. Moving averages
    are not trainable.

    Args:
      graph: a Graph, a GraphDef, a file that holds one, or a tf.Graph.
      path: the checkpoint's prefix.
      outputs: names of nodes or tensors, to which the graph is pruned; left out, all of it stays.
      inputs: tensors to feed, as NAME or NAME=?x224x224x3, where the graph is cut.
      version: of the checkpoint.
      metadata: what is written into the .meta; left out, what the graph has already.
      verify: "structure" compares every node and value with the frozen graph; "run" runs both on
        the same inputs too; "auto" is "structure".
      overwrite: whether a checkpoint that is there already is replaced.
      trust: whether ops that reach files, the network or Python are run.
      progress: told what became variables, and what cannot come back.

    Raises:
      OutputExistsError: a checkpoint is there and may not be replaced.
      GraphError: the graph has variables already, or no constant that was one.
      VerificationError: what was written is not what it should be; nothing is left of it.
    """
    said = Notes(progress)
    thawing = prepare_thawing(
        as_graph(graph), outputs=outputs, inputs=inputs, metadata=metadata, progress=said
    )
    written, verification = write_thawed(
        thawing,
        Path(path),
        version=version,
        verify=verify,
        overwrite=overwrite,
        trust=trust,
        progress=said,
    )
    weights = thawing.thawed.weights
    return Thawed(
        path=written.prefix,
        version=version,
        variables=tuple(weight.name for weight in weights),
        trainable=tuple(weight.name for weight in weights if weight.is_trainable),
        inputs=tuple(map(str, thawing.inputs)),
        outputs=tuple(map(str, thawing.outputs)),
        parameters=thawing.parameters,
        said=tuple(said.lines),
        verification=verification,
    )
