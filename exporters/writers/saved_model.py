"""Writes a SavedModel: its directory, with the graph, a signature and, if kept, the variables.

Variables are constants, or lie in variables/ where --keep-variables leaves them. Nothing of it
needs TensorFlow, which loads it with tf.saved_model.load and tf.compat.v1.saved_model.load.

Source:
  TensorFlow's saved_model.proto, meta_graph.proto and saved_model/constants.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from checkpoints.dtypes import name_of_number
from checkpoints.errors import GraphError, OutputExistsError, VerificationError, counted
from checkpoints.files import atomic_directory
from checkpoints.mapped import map_file
from checkpoints.mapping import SavedVariables
from checkpoints.messages import DataType, MetaGraphDef, SignatureDef
from checkpoints.progress import Progress
from checkpoints.tensors import Array, describe
from checkpoints.verified import write_verified
from checkpoints.wire import VARINT, encode_header, encode_tag, encode_varint, scan
from exporters import fields
from exporters.changing import Comparison, write_changed
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE
from exporters.kept_graph import (
    kept_meta_graph,
    kept_variables,
    lost_signatures,
    signatures_of,
)
from exporters.metadata import IN_GRAPH, Metadata
from exporters.options import Calibration
from exporters.preparing import converted, prepared, refuse_nothing_kept
from exporters.proofs.proved import write_proved
from exporters.proofs.verdict import Verification
from exporters.saved_models.warm_up import PLACE, write_warm_up
from exporters.thawed.variable_graph import GraphVariable
from exporters.values import bytes_of, first_difference

GRAPH_FILE = "saved_model.pb"
VARIABLES = Path("variables", "variables")
SERVE = "serve"
_SCHEMA_VERSION = 1


def write(request: Request, progress: Progress) -> Conversion:
    """Writes a SavedModel with one graph, tagged to be served.

    Raises:
      OutputExistsError: the directory is there and may not be replaced.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit; or pictures
        to warm up with do not fit the model's input.
      UnsupportedError: the graph would be larger than a message can be.
      VerificationError: what was written is not what it should be; it is not left in place.
    """
    keeps = request.options.keep_variables
    _refuse_other_directory(request.destination)

    def write_form(frozen: FrozenGraph, compare: Comparison | None) -> Verification:
        with atomic_directory(request.destination, request.overwrite) as directory:
            binary = directory / "graph.pb"
            verification = write_proved(
                frozen,
                binary,
                request.verify,
                keeps_variables=keeps,
                label=str(request.destination),
                trust=request.trust,
                compare=compare,
                progress=progress,
            )
            if keeps:
                _write_with_variables(frozen, directory, request, progress)
            else:
                signatures = signatures_of(frozen, not request.outputs)
                _wrap(signatures, binary, directory / GRAPH_FILE)
            binary.unlink()
            if request.options.warm_up is not None:
                _warm_up(frozen, request.options.warm_up, directory, progress)
        return verification

    with prepared(request, progress) as frozen:
        refuse_nothing_kept(request, frozen)
        lost = [] if request.outputs else lost_signatures(frozen)
        if lost:
            progress.say(
                f"Signatures left out, since the outputs do without their tensors: {', '.join(lost)}."
                " --outputs takes theirs."
            )
        written, verification = write_changed(frozen, request, write_form, progress)
    size = sum(file.stat().st_size for file in request.destination.rglob("*") if file.is_file())
    nodes = written.num_nodes
    return converted(request, frozen, verification, num_bytes=size, nodes=nodes, written=written)


def _warm_up(
    frozen: FrozenGraph, pictures: Calibration, directory: Path, progress: Progress
) -> None:
    metadata = frozen.metadata or Metadata()
    signature = signatures_of(frozen, False)[DEFAULT_SIGNATURE]
    takes_files = IN_GRAPH in (metadata.preprocessing or {})
    wanted = DataType.DT_STRING if takes_files else DataType.DT_FLOAT
    if [info.dtype for info in signature.inputs.values()] != [wanted]:
        inputs = sorted(f"{key} {name_of_number(i.dtype)}" for key, i in signature.inputs.items())
        raise GraphError(
            "--warm-up cannot feed the model's input with pictures.",
            expected=f"one input, {name_of_number(wanted)}",
            received=", ".join(inputs),
            next_step="Leave --warm-up out, or name the input: --inputs NAME",
        )
    count = write_warm_up(directory, DEFAULT_SIGNATURE, signature, pictures(metadata))
    progress.say(f"{counted(count, 'request')} to warm a server up with, in {PLACE}.")


def _refuse_other_directory(path: Path) -> None:
    """Raises OutputExistsError where a directory of something else would be replaced."""
    is_other = path.is_file() or (path.is_dir() and any(path.iterdir()))
    if is_other and not (path / GRAPH_FILE).is_file():
        raise OutputExistsError(
            f"{path} is there and is no SavedModel, so it is not replaced.",
            expected="a new name, or a SavedModel to replace",
            next_step="Name another output.",
        )


def _wrap(signatures: Mapping[str, SignatureDef], binary: Path, path: Path) -> None:
    """Puts a frozen graph's file into a SavedModel, its bytes unchanged."""
    rest = MetaGraphDef()
    rest.meta_info_def.tags.append(SERVE)
    for key, signature in signatures.items():
        rest.signature_def[key].CopyFrom(signature)
    data: bytes = rest.SerializeToString(deterministic=True)
    graph = map_file(binary)
    header = encode_header(fields.META_GRAPH, len(graph))
    with path.open("wb") as file:
        file.write(_saved_model_header(len(header) + len(graph) + len(data)))
        file.write(header)
        file.write(graph)
        file.write(data)
    _prove_wrapped(path, graph, data)


def _prove_wrapped(path: Path, graph: memoryview, rest: bytes) -> None:
    """The written file is read again: the graph's bytes and all else stand where they should."""
    written = map_file(path)
    models = [field for field in scan(written) if field.number == fields.SAVED_MODEL_META_GRAPH]
    found = None
    for model in models[:1]:
        for field in scan(written, model.start, model.end):
            if field.number == fields.META_GRAPH:
                found = written[field.start : field.end]
    if (
        len(models) != 1
        or found is None
        or len(found) != len(graph)
        or first_difference(found, graph) is not None
        or bytes(written[-len(rest) :]) != rest
    ):
        raise VerificationError(
            f"{path.name} does not hold the graph that was written.",
            next_step="Nothing was written. Look after the disk.",
        )


def _write_with_variables(
    frozen: FrozenGraph, directory: Path, request: Request, progress: Progress
) -> None:
    variables = kept_variables(frozen, own_keys=True)
    data = kept_meta_graph(
        frozen,
        variables,
        "v2",
        signatures=signatures_of(frozen, not request.outputs),
        tags=[SERVE],
        verify=request.verify != "none",
        label=str(request.destination),
        progress=progress,
    )
    (directory / GRAPH_FILE).write_bytes(_saved_model_header(len(data)) + data)
    write_verified(
        directory / VARIABLES,
        _NodeVariables(frozen, variables),
        version="v2",
        verify=request.verify != "none",
        progress=progress,
    )


class _NodeVariables(SavedVariables):
    """The variables of a graph under the names of their nodes."""

    def __init__(self, frozen: FrozenGraph, variables: list[GraphVariable]) -> None:
        self._frozen = frozen
        self.label = frozen.graph.label
        self.metadata = {}
        self.variables = {
            variable.node: describe(variable.node, variable.header.dtype, variable.header.shape)
            for variable in variables
        }

    def __getitem__(self, name: str) -> Array:
        return self._frozen.values[self._frozen.variables[name].key]

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian."""
        return bytes_of(self._frozen.values, self._frozen.variables[name].key)


def _saved_model_header(num_bytes: int) -> bytes:
    """What stands before the one MetaGraphDef of a SavedModel."""
    return b"".join(
        (
            encode_tag(fields.SAVED_MODEL_VERSION, VARINT),
            encode_varint(_SCHEMA_VERSION),
            encode_header(fields.SAVED_MODEL_META_GRAPH, num_bytes),
        )
    )
