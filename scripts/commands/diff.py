"""slimtune diff: what differs between two checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from scripts.output import Output
from scripts.verb import verb

if TYPE_CHECKING:
    from checkpoints.comparing import Difference, ValueDifference
    from checkpoints.differences import Figures


@verb(
    "diff",
    example="slimtune diff model.ckpt model.safetensors\n"
    "slimtune diff runs/a runs/b --rtol 1e-5 --atol 1e-8",
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option("--rtol", type=float, default=0.0, show_default=True, help="Relative tolerance.")
@click.option("--atol", type=float, default=0.0, show_default=True, help="Absolute tolerance.")
def command(output: Output, a: str, b: str, rtol: float, atol: float) -> None:
    """Compare the variables of two checkpoints, in any forms.

    Told are variables that only one has, other dtypes or shapes, and other values: how many,
    how far apart, where NaNs stand, and which two variables exchanged their values. Two numbers
    are the same where |a - b| <= atol + rtol * |b|. Exit code 1 where anything differs.
    """
    import checkpoints

    found = checkpoints.diff(a, b, rtol=rtol, atol=atol, progress=output)
    output.result(found.as_json(), "\n".join(_lines(found)))
    if not found.is_equal:
        raise click.exceptions.Exit(1)


def _lines(found: Difference) -> list[str]:
    from checkpoints.errors import counted, listed

    same = counted(found.num_same, "variable")
    if found.is_equal:
        return [f"{found.a} and {found.b}: {same}, all the same"]
    lines = [f"{found.a} (A) and {found.b} (B) differ; {same} the same"]
    for title, variables in (("Only in A", found.only_in_a), ("Only in B", found.only_in_b)):
        if variables:
            names = [f"{v.name} {v.dtype_name} {list(v.shape)}" for v in variables]
            lines += [f"{title}: {counted(len(names), 'variable')}", listed(names)]
    if found.headers:
        texts = [
            f"{d.name}: {d.a.dtype_name} {list(d.a.shape)} and {d.b.dtype_name} {list(d.b.shape)}"
            + ("" if d.figures is None else f"; {_figures(d.figures)}")
            for d in found.headers
        ]
        lines += [f"Other dtype or shape: {counted(len(texts), 'variable')}", listed(texts)]
    if found.values:
        texts = [_value_line(difference) for difference in found.values]
        lines += [f"Other values: {counted(len(texts), 'variable')}", listed(texts)]
    return lines


def _value_line(difference: ValueDifference) -> str:
    if difference.figures is None:
        return f"{difference.name}: cannot be read: {difference.detail}"
    figures = _figures(difference.figures)
    if difference.swapped_with is not None:
        return f"{difference.name}: exchanged its values with {difference.swapped_with}; {figures}"
    return f"{difference.name}: {figures}"


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
