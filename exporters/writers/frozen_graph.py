"""Writes a .pb: a binary GraphDef, variables as constants or kept, and metadata if there is some."""

from __future__ import annotations

from checkpoints.progress import Progress
from exporters.changing import Comparison, write_changed
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.preparing import converted, prepared, refuse_nothing_kept
from exporters.proofs.proved import write_proved
from exporters.proofs.verdict import Verification


def write(request: Request, progress: Progress) -> Conversion:
    """Freezes the graph, writes it and verifies it.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: the file would be larger than a .pb can be.
      VerificationError: the file is not what it should be; it is not left in place.
    """

    def write_form(frozen: FrozenGraph, compare: Comparison | None) -> Verification:
        return write_proved(
            frozen,
            request.destination,
            request.verify,
            keeps_variables=request.options.keep_variables,
            trust=request.trust,
            compare=compare,
            overwrite=request.overwrite,
            progress=progress,
        )

    with prepared(request, progress) as frozen:
        refuse_nothing_kept(request, frozen)
        written, verification = write_changed(frozen, request, write_form, progress)
    size = request.destination.stat().st_size
    nodes = written.num_nodes
    return converted(request, frozen, verification, num_bytes=size, nodes=nodes, written=written)
