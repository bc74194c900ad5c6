"""TensorFlow's inspect_checkpoint: what a checkpoint holds, in the words of the old tool."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from checkpoints.errors import NotFoundError, UsageError
from scripts.classic.flags import Flag, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from checkpoints.api import Checkpoint

FLAGS = (
    Flag(
        "file_name", str, "", "The checkpoint, in any spelling.", required=True, path="checkpoint"
    ),
    Flag("tensor_name", str, "", "Print the values of this variable."),
    Flag("all_tensors", bool, False, "Print names and values of all."),
    Flag("all_tensor_names", bool, False, "Print the names of all, sorted."),
    Flag("count_exclude_pattern", str, "", "Do not count variables that it matches (a regex)."),
    Flag("printoptions", str, "", "How numpy prints values, as in threshold=100 linewidth=150."),
)


@classic(
    "inspect_checkpoint",
    example="slimtune classic inspect_checkpoint --file_name=model.ckpt --all_tensors"
    " --printoptions threshold=100",
    flags=FLAGS,
    today="slimtune inspect",
)
@click.argument("printoption", nargs=-1, metavar="[K=V]...")
def command(output: Output, **flags: Any) -> None:
    """Print names, dtypes, shapes and values of variables, line by line as TensorFlow's tool does."""
    import numpy as np

    import checkpoints

    more = click.get_current_context().params["printoption"]
    options = _print_options([*flags["printoptions"].split(), *more], np.get_printoptions())
    with checkpoints.open(flags["file_name"], plain_names=False) as saved:
        if saved.family.said is not None:
            output.say(f"Checkpoint {saved.family.prefix}: {saved.family.said}.")
        with np.printoptions(**options):
            lines, shown = _listed(saved, flags, output.as_json)
        count, excluded = _counted(saved, flags["count_exclude_pattern"])
        prefix = saved.family.prefix
    finish(
        output,
        {"path": str(prefix), "tensors": shown, "parameters": count},
        ["\n".join([*lines, *excluded, f"# Total number of params: {count}"])],
        _same(flags),
    )


def _listed(
    saved: Checkpoint, flags: Mapping[str, Any], as_json: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    """What is printed of the variables, and the same for programs."""
    wanted = flags["tensor_name"]
    if flags["all_tensors"] or flags["all_tensor_names"]:
        names, with_values = sorted(saved.variables), flags["all_tensors"]
    elif wanted:
        if wanted not in saved.variables:
            raise _absent(saved, wanted)
        names, with_values = [wanted], True
    else:
        names = list(saved.variables)
        shown = [_described(saved, name) for name in names]
        lines = [
            f"{entry['name']} ({_type_name(entry['dtype'])}) {_sizes(entry['shape'])}"
            for entry in shown
        ]
        return [*lines, ""], shown
    lines, shown = [], []
    for name in names:
        entry = _described(saved, name)
        shown.append(entry)
        lines.append(f"tensor: {name} ({entry['dtype']}) {entry['shape']}")
        if with_values:
            values = saved[name]
            lines.append(str(values))
            if as_json:
                entry["values"] = _plain(values)
    return lines, shown


def _plain(values: Any) -> Any:
    """An array, or what its tolist gives, as JSON has it: bytes and complex numbers are text."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, list):
        return [_plain(value) for value in values]
    if isinstance(values, bytes):
        return values.decode("utf-8", "backslashreplace")
    return str(values) if isinstance(values, complex) else values


def _described(saved: Checkpoint, name: str) -> dict[str, Any]:
    variable = saved.variables[name]
    return {"name": name, "dtype": variable.dtype_name, "shape": list(variable.shape)}


def _type_name(dtype: str) -> str:
    """TensorFlow's name of a dtype in its enum: DT_FLOAT."""
    from checkpoints import dtypes
    from checkpoints.messages import DataType

    return str(DataType.Name(dtypes.of_name(dtype).number))


def _sizes(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _absent(saved: Checkpoint, name: str) -> NotFoundError:
    from checkpoints.errors import near_names

    near = near_names(name, list(saved.variables))
    return NotFoundError(
        f"Tensor {name} not found in checkpoint {saved.family.prefix}.",
        expected=f"one of {len(saved)} names" + (f", as in {', '.join(near)}" if near else ""),
        received=name,
        next_step=f"--tensor_name={near[0]}" if near else "Leave --tensor_name out.",
    )


def _counted(saved: Checkpoint, pattern: str) -> tuple[int, list[str]]:
    """How many numbers the counted variables hold, and a line on those left out."""
    sizes = {name: math.prod(variable.shape) for name, variable in saved.variables.items()}
    if not pattern:
        return sum(sizes.values()), []
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise UsageError(
            "--count_exclude_pattern is no regular expression.",
            expected="as in Adam|Momentum",
            received=f"--count_exclude_pattern={pattern}: {error}",
            next_step="A backslash before ( [ . * + ? takes it as it stands.",
        ) from error
    left_out = [size for name, size in sizes.items() if regex.search(name)]
    line = (
        f"# Excluding {len(left_out)} tensors ({sum(left_out)} params) that match {pattern}"
        " when counting."
    )
    return sum(sizes.values()) - sum(left_out), [line]


def _print_options(texts: Sequence[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Print options of numpy from K=V, of the type that each has already."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if (
            not equals
            or known.get(key) is None
            or not isinstance(known[key], bool | int | float | str)
        ):
            raise UsageError(
                f"{text} is no print option of numpy.",
                expected="K=V with K one of "
                + ", ".join(k for k, v in known.items() if isinstance(v, bool | int | float | str)),
                received=text,
                next_step="Leave it out to see values as numpy shows them.",
            )
        try:
            options[key] = _read(value, type(known[key]))
        except ValueError as error:
            raise UsageError(
                f"{key} cannot be {value}.",
                expected=f"as in {key}={known[key]}",
                received=text,
                next_step=f"Without it it is {known[key]}.",
            ) from error
    return options


def _read(text: str, kind: type) -> Any:
    if kind is not bool:
        return kind(text)
    words = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _same(flags: Mapping[str, Any]) -> str:
    """The command of today; values are Python's to print."""
    words: list[str | Path] = ["slimtune", "inspect", Path(flags["file_name"])]
    if flags["all_tensors"] or (flags["tensor_name"] and not flags["all_tensor_names"]):
        words.append("--stats")
    if flags["tensor_name"] and not (flags["all_tensors"] or flags["all_tensor_names"]):
        words += ["--filter", f"^{re.escape(flags['tensor_name'])}$"]
    return shell_words(*words)


if __name__ == "__main__":
    main(["classic", "inspect_checkpoint", *sys.argv[1:]])
