"""What in a pruned graph would stop it from giving one answer for one picture."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from checkpoints.errors import GraphError, listed
from checkpoints.messages import FunctionDef, NodeDef
from exporters.constants import constant_value
from exporters.graph import Graph
from exporters.names import is_control, node_of
from exporters.ops import FUSED_BATCH_NORMS, HANDLE_READS, VARIABLES, writes_variable
from exporters.rewrites.prune import called_functions

_SHOWN_NODES = 3
_STORED = frozenset({"Const", "VariableShape", *HANDLE_READS, *VARIABLES})
_DRAWS = "draws random numbers, as dropout does"
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (
            r"Random(Crop|Gamma|Poisson(V2)?|Shuffle|StandardNormal|Uniform(Int)?)"
            r"|(Parameterized)?TruncatedNormal|Multinomial|RiscRandomUniform"
            r"|Stateless(Random(Binomial|Gamma|Normal|Poisson|Uniform(Int|FullInt)?)"
            r"|(Parameterized)?TruncatedNormal|Multinomial|Shuffle)(V\d)?"
            r"|Stateful(RandomBinomial|StandardNormal(V2)?|TruncatedNormal|Uniform(Int|FullInt)?)"
            r"|\w+CandidateSampler",
            _DRAWS,
        ),
        (
            r"IteratorGetNext(Sync|AsOptional)?|OneShotIterator|Iterator(V2)?",
            "reads from a tf.data iterator, which a file does not hold",
        ),
        (
            r"QueueDequeue\w*|(FIFO|RandomShuffle|PaddingFIFO|Priority)Queue(V2)?"
            r"|ReaderRead\w*|(WholeFile|TextLine|FixedLengthRecord|TFRecord|LMDB|Identity)Reader"
            r"(V2)?",
            "reads from a queue, which a file does not hold",
        ),
        (
            r"(Anonymous)?(Mutable)?(Dense)?HashTable\w*|MutableDenseHashTable\w*",
            "is a lookup table, whose entries a frozen graph does not hold",
        ),
    )
)


class TrainingOp(NamedTuple):
    """A node that belongs to training.

    Attributes:
      name: the node; "function/node" inside a function.
      op: its op.
      reason: what it does.
    """

    name: str
    op: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.op}): {self.reason}"


def training_ops(graph: Graph) -> list[TrainingOp]:
    """The nodes of a pruned graph, those in functions included, that belong to training."""
    found = _in_nodes("", graph.nodes.values())
    for name, function in graph.functions.items():
        found += _in_nodes(f"{name}/", function.node_def)
    return found


def unseeded_nodes(graph: Graph) -> list[str]:
    """The nodes of a graph, those in functions included, that draw other numbers in every run."""
    bodies = (graph.nodes.values(), *(f.node_def for f in graph.functions.values()))
    return [
        node.name
        for node in itertools.chain.from_iterable(bodies)
        if _reason_of_op(node.op) == _DRAWS
        and not node.op.startswith("Stateless")
        and not any(seed in node.attr and node.attr[seed].i for seed in ("seed", "seed2"))
    ]


def has_training_nodes(function: FunctionDef) -> bool:
    """Whether a node of a function belongs to training."""
    return bool(_in_nodes("", function.node_def))


def refuse_training_ops(
    graph: Graph,
    keep_training: bool,
    problems: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> list[TrainingOp]:
    """Returns the training ops that were asked to be kept.

    Args:
      graph: a pruned graph, put into inference mode as far as that went.
      keep_training: whether they were.
      problems: why it did not go further, a line each.
      settings: placeholders that `--set` could decide on.

    Raises:
      GraphError: there are some and they were not.
    """
    found = training_ops(graph)
    if (found or problems) and not keep_training:
        step = (
            f"Say what it is in inference: --set {settings[0]}=false. Or export"
            if settings
            else "Export"
        )
        raise GraphError(
            f"{graph.label} is in training mode where it should give answers:\n"
            f"{listed([*problems, *_by_reason(found, _callers(graph))])}",
            expected="what can be put into inference mode exactly: batch norm with moving averages,"
            " dropout, an input pipeline with one tensor of pictures",
            next_step=f"{step} the net as it was built for evaluation, or name outputs and inputs"
            " that leave these nodes out; --keep-training writes it as it is.",
        )
    return found


def _callers(graph: Graph) -> dict[str, str]:
    """Function -> the first node of the graph that calls it, directly or through others."""
    callers: dict[str, str] = {}
    for node in graph.nodes.values():
        for function in called_functions(graph, [node]):
            callers.setdefault(function.signature.name, f"{node.name} ({node.op})")
    return callers


def _by_reason(found: list[TrainingOp], callers: Mapping[str, str]) -> list[str]:
    """A line a reason, with the first nodes it holds for: one reason may hold for hundreds."""
    nodes: dict[str, list[str]] = {}
    for entry in found:
        caller = callers.get(entry.name.partition("/")[0])
        inside = "" if caller is None else f" inside {caller}"
        nodes.setdefault(entry.reason, []).append(f"{entry.name} ({entry.op}){inside}")
    lines = []
    for reason, names in nodes.items():
        more = len(names) - _SHOWN_NODES
        shown = ", ".join(names[:_SHOWN_NODES]) + (f" and {more} more" if more > 0 else "")
        lines.append(f"{shown}: {reason}")
    return lines


def _in_nodes(prefix: str, nodes: Iterable[NodeDef]) -> list[TrainingOp]:
    by_name = {node.name: node for node in nodes}
    reasons: dict[str, str | None] = {}
    found = []
    for name, node in by_name.items():
        op = node.op
        if op not in reasons:
            reasons[op] = _reason_of_op(op)
        reason = reasons[op] or _reason_of_node(node, by_name)
        if reason is not None:
            found.append(TrainingOp(prefix + name, op, reason))
    return found


def _reason_of_op(op: str) -> str | None:
    if writes_variable(op):
        return "writes a variable, and an output depends on what it writes"
    for pattern, reason in _REASONS:
        if pattern.fullmatch(op):
            return reason
    return None


def _reason_of_node(node: NodeDef, by_name: dict[str, NodeDef]) -> str | None:
    if node.op in FUSED_BATCH_NORMS:
        reason = _reason_of_batch_norm(node)
        return reason if reason and depends_on_data(node, by_name) else None
    if node.op == "Mean" and _takes_variance_over_batch(node, by_name):
        return "takes the variance of the batch at hand, as batch norm does in training"
    return None


def _reason_of_batch_norm(node: NodeDef) -> str | None:
    # The attribute is true where it is not written.
    if node.op in FUSED_BATCH_NORMS and (
        "is_training" not in node.attr or node.attr["is_training"].b
    ):
        return "normalises with the mean and variance of the batch at hand"
    return None


def _takes_variance_over_batch(mean: NodeDef, by_name: dict[str, NodeDef]) -> bool:
    """Whether a Mean is the second of the two that tf.nn.moments makes, over axis 0."""
    inputs = [node_of(reference) for reference in mean.input if not is_control(reference)]
    if len(inputs) != 2 or any(name not in by_name for name in inputs):
        return False
    squares, axes = (by_name[name] for name in inputs)
    if squares.op != "SquaredDifference" or axes.op != "Const" or 0 not in constant_value(axes):
        return False
    return depends_on_data(squares, by_name)


def depends_on_data(node: NodeDef, by_name: Mapping[str, NodeDef]) -> bool:
    """Whether a node depends on more than variables and constants.

    Weights that are standardised have a mean and a variance too, in evaluation as in training.

    Args:
      node: a node.
      by_name: the nodes beside it; what is not among them is an argument of their function.
    """
    seen: set[str] = set()
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.op in _STORED:
            continue
        inputs = [node_of(reference) for reference in current.input if not is_control(reference)]
        if not inputs or any(name not in by_name for name in inputs):
            return True
        for name in inputs:
            if name not in seen:
                seen.add(name)
                waiting.append(by_name[name])
    return False
