"""Batch norms folded into convolutions: how long it takes, and how fast the graph runs then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from checkpoints.errors import VerificationError
from scripts.bench.case import Case, Check, Contender, Peer, Step, python, slimtune
from scripts.bench.process import run_work

FOLD_TARGET = 20.0
RUN_TARGET = 1.0
ROUNDS = 3
"""The peer takes most of a minute."""

TOLERANCE = 1e-4
"""Largest difference between the probabilities of two folded graphs."""


def folding_cases(frozen: Path, input_name: str, output: str, directory: Path) -> list[Case]:
    """Folding, and running what came out of it; the second case needs the first.

    Args:
      frozen: a frozen graph with batch norms.
      input_name: tensor name of the pictures.
      output: node name of the probabilities.
      directory: where the folded graphs are written.
    """
    ours, theirs = directory / "slimtune-folded.pb", directory / "tensorflow-folded.pb"
    fold = Case(
        name="fold",
        title="fold the batch norms of a frozen graph",
        ours=Contender(
            "slimtune convert",
            # The peer compares nothing either.
            slimtune(
                *("convert", frozen, ours, "--outputs", output),
                *("--optimize", "--verify", "none", "--overwrite", "--json"),
            ),
        ),
        peers=(
            Peer(
                "optimize_for_inference",
                python(
                    "tensorflow.python.tools.optimize_for_inference",
                    f"--input={frozen}",
                    f"--output={theirs}",
                    f"--input_names={input_name.partition(':')[0]}",
                    f"--output_names={output}",
                ),
                target=FOLD_TARGET,
            ),
        ),
        check=near_answers("folded", ours, theirs, input_name, output, TOLERANCE),
        in_quick=False,
        most_rounds=ROUNDS,
    )
    run = Case(
        name="fold-run",
        title="run the folded graph",
        ours=Contender("slimtune's graph", _run(ours, input_name, output)),
        peers=(
            Peer(
                "optimize_for_inference's graph",
                _run(theirs, input_name, output),
                target=RUN_TARGET,
            ),
        ),
        check=same_probabilities,
        in_quick=False,
    )
    return [fold, run]


def _run(path: Path, input_name: str, output: str) -> Step:
    arguments = (str(path), input_name, f"{output}:0")
    return Step("scripts.bench.groups.same_answers:run_graph", arguments, repeat=5)


def same_probabilities(printed: Mapping[str, str]) -> str:
    """Compares the largest probability that either graph gave for each picture."""
    ours, theirs = (json.loads(text) for text in printed.values())
    if len(ours) != len(theirs) or any(
        not abs(a - b) <= TOLERANCE for a, b in zip(ours, theirs, strict=True)
    ):
        raise VerificationError(
            "The two graphs answer differently.",
            expected=f"largest probabilities {theirs}, within {TOLERANCE:g}",
            received=ours,
        )
    return f"largest probability of {len(ours)} pictures, within {TOLERANCE:g}"


def near_answers(
    kind: str, ours: Path, theirs: Path, input_name: str, output: str, tolerance: float = 0.0
) -> Check:
    """Compares what two graphs answer to the same pictures.

    Args:
      kind: what they are, for the message.
      ours: a graph.
      theirs: another.
      input_name: tensor name of the pictures.
      output: node name of the answers.
      tolerance: how far apart answers may be; 0: equal bit for bit.
    """
    program = python("scripts.bench.groups.same_answers", ours, theirs, input_name, f"{output}:0")
    how = f"within {tolerance:g}" if tolerance else "bit for bit"

    def check(printed: Mapping[str, str]) -> str:
        found = json.loads(run_work(program, ours.parent)[1])
        if not found["max_abs"] <= tolerance:  # so that NaN is refused
            raise VerificationError(
                f"The two {kind} graphs answer differently.",
                expected=f"equal answers, {how}",
                received=f"largest difference {found['max_abs']}",
            )
        return f"answers to the same pictures, {how}"

    return check
