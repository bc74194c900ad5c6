"""Writes a .meta: the inference graph as a MetaGraphDef, for the checkpoint it came from."""

from __future__ import annotations

import tempfile
from pathlib import Path

from checkpoints.errors import UsageError
from checkpoints.files import atomic_file
from checkpoints.messages import MetaGraphDef
from checkpoints.progress import Progress
from exporters.conversion import Conversion, Request
from exporters.freezing import FrozenGraph
from exporters.inspecting.endpoints import DEFAULT_SIGNATURE
from exporters.kept_graph import kept_meta_graph, kept_variables, signature_of
from exporters.preparing import converted, prepared, refuse_nothing_kept
from exporters.proofs.proved import write_proved
from exporters.proofs.verdict import NOT_VERIFIED, Verification
from exporters.savers.writing import SaverVersion


def write(request: Request, progress: Progress) -> Conversion:
    """Writes the graph with its variables, and a Saver that restores them from their checkpoint.

    A graph whose variables are constants already keeps these; --to v2 makes variables of them.

    Raises:
      OutputExistsError: the file is there and may not be replaced.
      GraphError: there is no graph, or graph, outputs, labels and variables do not fit.
      UnsupportedError: a variable is a slice of one in the checkpoint.
      VerificationError: the file is not what it should be; it is not left in place.
    """
    if request.verify == "run":
        raise UsageError(
            f"{request.destination} goes with a checkpoint and is not run by itself.",
            expected="--verify structure, auto or none",
        )
    with prepared(request, progress) as frozen:
        refuse_nothing_kept(request, frozen)
        verification = _proved(frozen, request, progress)
        if frozen.variables:
            version = _version(request)
            variables = kept_variables(frozen, own_keys=False)
            data = kept_meta_graph(
                frozen,
                variables,
                version,
                signatures={DEFAULT_SIGNATURE: signature_of(frozen)},
                verify=request.verify != "none",
                label=str(request.destination),
                progress=progress,
            )
            progress.say(f"Its Saver restores the variables from {_checkpoint(request)}.")
        else:
            data = _of_constants(frozen)
        with atomic_file(request.destination, overwrite=request.overwrite) as file:
            file.write(data)
    nodes = len(MetaGraphDef.FromString(data).graph_def.node)
    return converted(request, frozen, verification, num_bytes=len(data), nodes=nodes)


def _proved(frozen: FrozenGraph, request: Request, progress: Progress) -> Verification:
    """Proves the inner graph, and runs it where the graph was rewritten."""
    if request.verify == "none":
        return NOT_VERIFIED
    with tempfile.TemporaryDirectory() as directory:
        return write_proved(
            frozen,
            Path(directory) / "graph.pb",
            request.verify,
            keeps_variables=True,
            label=str(request.destination),
            trust=request.trust,
            progress=progress,
        )


def _of_constants(frozen: FrozenGraph) -> bytes:
    from exporters.frozen_file import frozen_graph_def

    message = MetaGraphDef(graph_def=frozen_graph_def(frozen))
    message.meta_info_def.SetInParent()
    message.signature_def[DEFAULT_SIGNATURE].CopyFrom(signature_of(frozen))
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _version(request: Request) -> SaverVersion:
    family = request.source.family
    return "v1" if family is not None and family.kind == "checkpoint-v1" else "v2"


def _checkpoint(request: Request) -> str:
    family = request.source.family
    return "a checkpoint" if family is None else str(family.prefix)
