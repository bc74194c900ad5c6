"""Writes a .pbtxt: the GraphDef of a .pb as text."""

from __future__ import annotations

from pathlib import Path

from google.protobuf import text_format

from checkpoints.errors import VerificationError
from checkpoints.files import atomic_file, directory_beside
from checkpoints.messages import GraphDef
from checkpoints.progress import Progress
from exporters.changing import Comparison, write_changed
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.preparing import converted, prepared, refuse_nothing_kept
from exporters.proofs.proved import write_proved
from exporters.proofs.verdict import Verification


def write(request: Request, progress: Progress) -> Conversion:
    """Freezes the graph and writes it as text; the text is read again and compared.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: the graph would be larger than a message can be.
      VerificationError: the file is not what it should be; it is not left in place.
    """

    def write_form(frozen: FrozenGraph, compare: Comparison | None) -> Verification:
        with directory_beside(request.destination) as directory:
            binary = directory / request.destination.name
            verification = write_proved(
                frozen,
                binary,
                request.verify,
                keeps_variables=request.options.keep_variables,
                label=str(request.destination),
                trust=request.trust,
                compare=compare,
                progress=progress,
            )
            _write_text(binary, request)
        return verification

    with prepared(request, progress) as frozen:
        refuse_nothing_kept(request, frozen)
        written, verification = write_changed(frozen, request, write_form, progress)
    size = request.destination.stat().st_size
    nodes = written.num_nodes
    return converted(request, frozen, verification, num_bytes=size, nodes=nodes, written=written)


def _write_text(binary: Path, request: Request) -> None:
    path = request.destination
    graph_def = GraphDef.FromString(binary.read_bytes())
    text = text_format.MessageToString(graph_def)
    with atomic_file(path, overwrite=request.overwrite) as file:
        file.write(text.encode("utf-8"))
        if request.verify != "none":
            file.flush()
            again = text_format.Parse(Path(file.name).read_text("utf-8"), GraphDef())
            if again.SerializeToString(deterministic=True) != binary.read_bytes():
                raise VerificationError(
                    f"{path} is not the same graph when it is read again.",
                    expected="a text that says every bit of the graph",
                    received="another graph; a NaN with bits of its own does not survive text",
                    next_step="Write the binary form: x.pb",
                )
