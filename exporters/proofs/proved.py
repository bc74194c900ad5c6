"""Writes a frozen graph so that it only gets its name once it was verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from checkpoints.errors import UnsupportedError
from checkpoints.files import atomic_file
from checkpoints.progress import SILENT, Progress
from exporters.freezing import FrozenGraph
from exporters.frozen_file import write_frozen
from exporters.kept_graph import kept_graph
from exporters.proofs.structure import prove_structure
from exporters.proofs.verdict import NOT_VERIFIED, Verification, VerifyMode


def write_proved(
    frozen: FrozenGraph,
    path: Path,
    verify: VerifyMode = "auto",
    *,
    keeps_variables: bool = False,
    label: str | None = None,
    trust: bool = False,
    compare: Callable[[Path], Verification] | None = None,
    overwrite: bool = True,
    progress: Progress = SILENT,
) -> Verification:
    """Writes a frozen graph beside its place, verifies the file, and then gives it its name.

    Args:
      frozen: the graph.
      path: the .pb.
      verify: "structure" proves the file node by node and byte by byte; "run" does that, then
        runs source and file on the same inputs; "auto" runs them only where the graph was
        rewritten, and an input can be made up; "none" does neither.
      keeps_variables: whether variables are written as they are, without their values, and not
        as constants.
      label: how messages call what is written; left out, its path.
      trust: whether ops that reach files, the network or Python are run.
      compare: runs the file and what it was made from; left out, that is `frozen` itself.
      overwrite: whether one that is there already is replaced, also one that came meanwhile.
      progress: told how far a run verification is.

    Raises:
      OutputExistsError: a file is there and may not be replaced.
      VerificationError: the written file is not what it should be; nothing is left of it.
      UnsupportedError: a run verification was asked for and no input can be made up.
    """
    with atomic_file(path, overwrite=overwrite) as file:
        if keeps_variables:
            file.write(kept_graph(frozen).graph_def.SerializeToString(deterministic=True))
        else:
            write_frozen(frozen, file)
        if verify == "none":
            return NOT_VERIFIED
        file.flush()
        partial = Path(file.name)
        proved = prove_structure(
            partial,
            frozen.source,
            frozen.values,
            frozen.outputs,
            keys={name: variable.key for name, variable in frozen.variables.items()},
            metadata=frozen.metadata,
            keeps_variables=keeps_variables,
            label=label or str(path),
        )
        if verify == "structure" or (verify == "auto" and not frozen.rewritten):
            return proved
        if compare is not None:
            return compare(partial)
        # Running needs TensorFlow, which the file half does without.
        from exporters.proofs.verification import verify_run

        try:
            return verify_run(
                frozen, partial, label=label or str(path), trust=trust, progress=progress
            )
        except UnsupportedError as error:
            if verify == "run":
                raise
            progress.say(f"Not run, its structure was proved: {error.message}")
            return proved
