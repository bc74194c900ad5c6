"""slimtune diff: what differs between two checkpoints, or two graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.comparing import Difference, ValueDifference
    from checkpoints.differences import Figures
    from exporters.inspecting.graph_diff import GraphDifference, NodeDifference


@verb(
    "diff",
    example="slimtune diff model.ckpt model.safetensors\n"
    "slimtune diff runs/a runs/b --rtol 1e-5 --atol 1e-8\n"
    "slimtune diff model.pb other.pb",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--rtol", type=float, default=0.0, show_default=True, help="Relative tolerance.")
@click.option("--atol", type=float, default=0.0, show_default=True, help="Absolute tolerance.")
def command(output: Output, a: str, b: str, rtol: float, atol: float) -> None:
    """Compare the variables of two checkpoints, or the nodes of two graphs, in any forms.

    Told are variables that only one has, other dtypes or shapes, and other values: how many,
    how far apart, where NaNs stand, and which two variables exchanged their values. Of two
    graphs (.pb, .pbtxt, .meta, SavedModels) the first node that differs is named and the others
    are counted; constants are compared as variables are. Two numbers are the same where
    |a - b| <= atol + rtol * |b|. Exit code 1 where anything differs.
    """
    kinds = [_holds_graph(path) for path in (a, b)]
    if any(kinds):
        _refuse_mixture(a, b, kinds)
        import exporters

        graphs = exporters.diff(a, b, rtol=rtol, atol=atol, progress=output)
        result, lines, is_equal = graphs.as_json(), _graph_lines(graphs), graphs.is_equal
    else:
        import checkpoints

        found = checkpoints.diff(a, b, rtol=rtol, atol=atol, progress=output)
        result, lines, is_equal = found.as_json(), _lines(found), found.is_equal
    output.result(result, "\n".join(lines))
    if not is_equal:
        raise click.exceptions.Exit(1)


def _holds_graph(path: str) -> bool:
    """Whether a path is a graph: by its name, or by what a file that is no checkpoint holds."""
    from checkpoints.errors import GraphError, SlimtuneError
    from checkpoints.family import resolve
    from exporters.graph import read_graph
    from exporters.sources import is_graph

    place = Path(path)
    if is_graph(place) or (place.suffix == ".meta" and place.is_file()):
        return True
    if not place.is_file():
        return False
    try:
        resolve(path)
    except SlimtuneError:
        try:
            read_graph(path)
        except GraphError:
            return False
        return True
    return False


def _refuse_mixture(a: str, b: str, are_graphs: list[bool]) -> None:
    from checkpoints.errors import UsageError

    if not all(are_graphs):
        graph, other = (a, b) if are_graphs[0] else (b, a)
        raise UsageError(
            f"{graph} is a graph, and {other} is none.",
            expected="two graphs, or two checkpoints",
            next_step="Make variables of its constants first: "
            + shell_words("slimtune", "convert", Path(graph), "x.ckpt"),
        )


def _graph_lines(found: GraphDifference) -> list[str]:
    from checkpoints.errors import counted, listed

    same = counted(found.num_same, "node")
    if found.is_equal:
        return [f"{found.a} and {found.b}: {same}, all the same"]
    lines = [f"{found.a} (A) and {found.b} (B) differ; {same} the same"]
    if found.first is not None:
        rest = len(found.nodes) - 1
        more = f", and {counted(rest, 'node')} after it" if rest else ""
        lines.append(f"First different node: {_node_line(found.first)}{more}")
        if rest:
            lines.append(listed(map(_node_line, found.nodes[1:])))
    for title, nodes in (("Only in A", found.only_in_a), ("Only in B", found.only_in_b)):
        if nodes:
            names = [f"{one_line(name)} ({op})" for name, op in nodes]
            lines += [f"{title}: {counted(len(names), 'node')}", listed(names)]
    if found.functions:
        count = counted(len(found.functions), "function")
        lines += [f"Other functions: {count}", listed(found.functions)]
    if found.versions:
        versions = [f"written for {made}, read from {read} on" for made, read in found.versions]
        lines.append(f"Other versions: {versions[0]} (A); {versions[1]} (B)")
    return lines


def _node_line(difference: NodeDifference) -> str:
    start = f"{one_line(difference.name)} ({difference.op})"
    figures = "" if difference.figures is None else _figures(difference.figures)
    if difference.swapped_with is not None:
        return f"{start} exchanged its values with {difference.swapped_with}; {figures}"
    return f"{start}: {difference.detail or figures}"


def _lines(found: Difference) -> list[str]:
    from checkpoints.errors import counted, listed

    same = counted(found.num_same, "variable")
    if found.is_equal:
        return [f"{found.a} and {found.b}: {same}, all the same"]
    lines = [f"{found.a} (A) and {found.b} (B) differ; {same} the same"]
    for title, variables in (("Only in A", found.only_in_a), ("Only in B", found.only_in_b)):
        if variables:
            names = [f"{one_line(v.name)} {v.dtype_name} {list(v.shape)}" for v in variables]
            lines += [f"{title}: {counted(len(names), 'variable')}", listed(names)]
    if found.headers:
        texts = [
            f"{one_line(d.name)}: {d.a.dtype_name} {list(d.a.shape)} and {d.b.dtype_name} {list(d.b.shape)}"
            + ("" if d.figures is None else f"; {_figures(d.figures)}")
            for d in found.headers
        ]
        lines += [f"Other dtype or shape: {counted(len(texts), 'variable')}", listed(texts)]
    if found.values:
        texts = [_value_line(difference) for difference in found.values]
        lines += [f"Other values: {counted(len(texts), 'variable')}", listed(texts)]
    return lines


def _value_line(difference: ValueDifference) -> str:
    name = one_line(difference.name)
    if difference.figures is None:
        return f"{name}: cannot be read: {difference.detail}"
    figures = _figures(difference.figures)
    if difference.swapped_with is not None:
        return f"{name}: exchanged its values with {one_line(difference.swapped_with)}; {figures}"
    return f"{name}: {figures}"


def _figures(figures: Figures) -> str:
    parts = [f"{figures.num_different:,} of {figures.num_elements:,} differ"]
    if figures.max_abs is not None:
        parts.append(f"max_abs {figures.max_abs:.3g}")
    if figures.max_rel is not None:
        parts.append(f"max_rel {figures.max_rel:.3g}")
    if figures.num_nan:
        parts.append(f"NaN in one only: {figures.num_nan}")
    if figures.num_infinite:
        parts.append(f"infinite in one only: {figures.num_infinite}")
    return ", ".join(parts)
