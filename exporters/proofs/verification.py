"""Run verification: source and output get the same inputs, and their answers are compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from checkpoints.errors import GraphError, UnsupportedError, VerificationError, listed
from checkpoints.progress import SILENT, Progress
from exporters.freezing import FrozenGraph
from exporters.graph import Graph, read_graph
from exporters.inspecting.training_ops import unseeded_nodes
from exporters.names import TensorName
from exporters.ops import VARIABLES
from exporters.proofs.made_up import made_up_inputs
from exporters.proofs.verdict import Verification
from exporters.rewrites.devices import without_devices
from exporters.runtime import GraphRunner, session_config
from exporters.thawed.thawing import ThawedGraph
from exporters.values import Array

BATCH_SIZES = (2, 3)
_OTHER_SIZES = (5, 7)
RTOL = 1e-4
ATOL = 1e-5
SEED = 0


class Answers:
    """Collects how far answers are apart, over outputs and batches."""

    def __init__(self, rtol: float = RTOL, atol: float = ATOL) -> None:
        """Tolerances as in numpy.allclose: |a - b| <= atol + rtol * |a|, a being the source's."""
        self._rtol = rtol
        self._atol = atol
        self._max_abs = 0.0
        self._max_rel = 0.0
        self._compared = 0
        self._rows = 0
        self._agreeing = 0
        self._problems: list[str] = []

    def compare(self, name: str, source: Array, output: Array) -> None:
        """Compares one output of one batch."""
        if source.shape != output.shape or source.dtype != output.dtype:
            self._problems.append(
                f"{name}: {source.dtype} {list(source.shape)} became"
                f" {output.dtype} {list(output.shape)}"
            )
            return
        self._compared += source.size
        if source.dtype == object:
            if not np.array_equal(source, output):
                self._problems.append(f"{name}: the strings differ")
            return
        wide = np.complex128 if source.dtype.kind == "c" else np.float64
        ours, theirs = source.astype(wide), output.astype(wide)
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        if not (np.isfinite(ours) | same).all() or not (np.isfinite(theirs) | same).all():
            self._problems.append(f"{name}: one has NaN or infinity where the other has not")
            return
        difference = np.abs(np.where(same, 0, ours) - np.where(same, 0, theirs))
        magnitude = np.abs(np.where(same, 0, ours)) + self._atol / self._rtol
        if difference.size:
            self._max_abs = max(self._max_abs, float(difference.max()))
            self._max_rel = max(self._max_rel, float((difference / magnitude).max()))
        if ours.ndim >= 2 and ours.shape[-1] > 1 and wide is np.float64:
            rows = ours.reshape(-1, ours.shape[-1]).argmax(axis=1)
            others = theirs.reshape(-1, theirs.shape[-1]).argmax(axis=1)
            self._rows += rows.size
            self._agreeing += int((rows == others).sum())

    def verdict(self, label: str) -> Verification:
        """The figures.

        Raises:
          VerificationError: the answers are further apart than the tolerances allow.
          UnsupportedError: there was nothing to compare.
        """
        agreement = self._agreeing / self._rows if self._rows else None
        if self._problems or self._max_rel > self._rtol:
            shares = "" if agreement is None else f", top-1 agreement {agreement:.1%}"
            raise VerificationError(
                f"{label} does not answer like its source.",
                expected=f"differences below {self._rtol:g} of the answer (or {self._atol:g})",
                received="; ".join(self._problems)
                or f"max_abs {self._max_abs:.3g}, max_rel {self._max_rel:.3g}{shares}",
                next_step="Nothing was left in place. Please report it, with the graph.",
            )
        if not self._compared:
            raise UnsupportedError(
                f"{label} cannot be compared with its source: all answers are empty.",
                expected="answers with numbers in them",
                next_step="Use --verify structure, or none for a form of another runtime.",
            )
        return Verification("run", True, self._max_abs, self._max_rel, agreement)


def verify_run(
    frozen: FrozenGraph,
    path: Path,
    *,
    label: str | None = None,
    trust: bool = False,
    rtol: float = RTOL,
    atol: float = ATOL,
    progress: Progress = SILENT,
) -> Verification:
    """Runs the source with its variables and the written file on the same inputs.

    Where the source was rewritten it is run as it was, fed with its settings, if that gives the
    same answers: is_training as false. A source whose batch norm or dropout were written for
    training gives none to compare with; then what it was rewritten to is run, variables in it.

    Args:
      frozen: what was written: the pruned source, its variables, inputs and outputs.
      path: the written .pb.
      label: how messages call the file; left out, its path.
      trust: whether ops that reach files, the network or Python are run.
      rtol: what difference is allowed in proportion to the source's answer.
      atol: and beside it.
      progress: told of every batch.

    Returns:
      A verification that passed, with its figures.

    Raises:
      VerificationError: the answers differ.
      UnsupportedError: no input can be made up for the graph, or no two runs of it are alike.
      GraphError: the graph cannot be run.
    """
    _refuse_unseeded(frozen.graph, label or str(path))
    written = replace(read_graph(path), path=Path(label or path))
    inputs = list(map(str, frozen.inputs))
    outputs = list(map(str, frozen.outputs))
    values = {name: frozen.values[variable.key] for name, variable in frozen.variables.items()}
    graph = frozen.graph if frozen.reference is None else frozen.reference
    settings = {str(tensor): value for tensor, value in frozen.settings.items()}
    with (
        _advised(),
        GraphRunner(without_devices(graph), inputs, outputs, trust=trust) as source,
        GraphRunner(written, inputs, outputs, trust=trust) as output,
    ):
        source.assign(values)
        if any(name in written.nodes and written.nodes[name].op in VARIABLES for name in values):
            output.assign(values)
        answers = Answers(rtol, atol)
        sizes = batch_sizes(frozen.batches)
        _compare_runs(
            source, output, frozen.graph, frozen.inputs, answers, progress, sizes, settings
        )
    if frozen.rewritten:
        progress.say(_what_is_compared(frozen))
    return answers.verdict(label or str(path))


def _refuse_unseeded(graph: Graph, label: str) -> None:
    """Raises UnsupportedError where a graph answers otherwise each time it is asked."""
    nodes = unseeded_nodes(graph)
    if nodes:
        raise UnsupportedError(
            f"{label} draws random numbers, so that no two answers are alike:\n{listed(nodes)}",
            next_step="Use --verify structure.",
        )


@contextmanager
def _advised() -> Iterator[None]:
    """Says what to do where a graph cannot be run."""
    try:
        yield
    except GraphError as error:
        if error.next_step is not None:
            raise
        raise GraphError(
            error.message,
            expected=error.expected,
            received=error.received,
            next_step="Use --verify structure, which proves the file without running it.",
        ) from error


def batch_sizes(batches: Collection[int]) -> tuple[int, ...]:
    """Two sizes to run a graph with, other than those of the batches it was trained with."""
    others = [size for size in BATCH_SIZES + _OTHER_SIZES if size not in batches]
    return tuple(others[: len(BATCH_SIZES)])


def _what_is_compared(frozen: FrozenGraph) -> str:
    if not frozen.runs_source:
        return (
            "Compared with the rewritten graph and its variables: the source, as it is, is not in"
            " inference mode."
        )
    fed = ", ".join(
        f"{tensor.node} = {str(value.item()).lower()}" for tensor, value in frozen.settings.items()
    )
    return "Compared with the source as it was" + (f", fed {fed}." if fed else ".")


def verify_thawed(
    thawed: ThawedGraph,
    inputs: Sequence[TensorName],
    outputs: Sequence[TensorName],
    label: str,
    *,
    trust: bool = False,
    progress: Progress = SILENT,
) -> Verification:
    """Runs a frozen graph and what it was thawed to, with its variables, on the same inputs.

    Args:
      thawed: the thawed graph, and the frozen one it was made from.
      inputs: tensors to feed.
      outputs: tensors to compare.
      label: how messages call what was written.
      trust: whether ops that reach files, the network or Python are run.
      progress: told of every batch.

    Returns:
      A verification that passed, with its figures.

    Raises:
      VerificationError: the answers differ.
      UnsupportedError: no input can be made up for the graph.
      GraphError: the graph cannot be run, or its outputs are not known.
    """
    if not outputs:
        raise GraphError(
            f"{thawed.source.label}: which tensors hold answers is not known, so none are compared.",
            next_step="Name them: --outputs NAME, or use --verify structure",
        )
    names = list(map(str, inputs)), list(map(str, outputs))
    config = session_config()
    # Optimisers fold constants that they cannot fold as variables, which moves the answers.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with (
        _advised(),
        GraphRunner(without_devices(thawed.source), *names, trust=trust, config=config) as source,
        GraphRunner(thawed.graph, *names, trust=trust, config=config) as output,
    ):
        output.assign({weight.name: thawed.values[weight.name] for weight in thawed.weights})
        answers = Answers()
        _compare_runs(source, output, thawed.source, inputs, answers, progress)
    return answers.verdict(label)


def _compare_runs(
    source: GraphRunner,
    output: GraphRunner,
    graph: Graph,
    inputs: Sequence[TensorName],
    answers: Answers,
    progress: Progress,
    sizes: Sequence[int] = BATCH_SIZES,
    settings: Mapping[str, Array] | None = None,
) -> None:
    """Gives both the same made-up inputs, a batch of each size, and collects the differences."""
    generator = np.random.default_rng(SEED)
    with progress.task("Comparing answers", len(sizes), "batches") as task:
        for batch_size in sizes:
            feeds = made_up_inputs(graph, inputs, batch_size, generator)
            expected = source.run(feeds={**feeds, **(settings or {})})
            for name, ours, theirs in zip(
                source.outputs, expected, output.run(feeds=feeds), strict=True
            ):
                answers.compare(name, np.asarray(ours), np.asarray(theirs))
            task.advance()
