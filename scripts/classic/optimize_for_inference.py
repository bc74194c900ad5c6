"""TensorFlow's optimize_for_inference: a frozen graph that is cheaper to run, its answers the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import UnsupportedError, UsageError, counted
from checkpoints.numbers import whole_number
from scripts.classic.flags import Flag, Idle, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from exporters.graph import Graph
    from exporters.shapes.sizes import Shape

FLAGS = (
    Flag("input", str, "", "The graph: a GraphDef, binary or text.", required=True, path="graph"),
    Flag(
        "output",
        str,
        "",
        "The file to write; what is there is replaced.",
        required=True,
        path="output",
    ),
    Flag("input_names", str, "", "Nodes that become placeholders, comma-separated."),
    Flag("output_names", str, "", "Nodes to keep, comma-separated.", required=True),
    Flag("frozen_graph", bool, True, "Whether the output is binary; else it is text."),
    Flag(
        "placeholder_type_enum",
        str,
        "1",
        "Dtypes of the placeholders, where the graph does not say them: one, or one for each.",
    ),
    Idle("toco_compatible", bool, False, "no op is put in that TensorFlow Lite does not have."),
    Flag(
        "placeholder_to_const_names",
        str,
        "",
        "Placeholders that become constants: NAME=VALUE,...",
    ),
)


@classic(
    "optimize_for_inference",
    example="slimtune classic optimize_for_inference --input=frozen.pb --output=optimized.pb"
    " --input_names=input --output_names=softmax",
    flags=FLAGS,
    today="slimtune convert",
    options={
        "inputs": "input_names",
        "outputs": "output_names",
        "overwrite": "another --output",
        "set": "placeholder_to_const_names",
    },
)
def command(stream: Output, /, **flags: Any) -> None:
    """Optimise a graph: strip it, fold batch norms and constants, take out checks and Identities.

    What is written is run beside the graph it was made from. Of a graph whose variables lie in a
    checkpoint nothing can be folded: it is stripped only.
    """
    import exporters
    from exporters.graph import read_graph
    from exporters.ops import VARIABLES
    from exporters.options import ModelOptions
    from exporters.sources import Source, refuse_source
    from scripts.classic.nodes import comma_separated, find_nodes, stripped, write_graph

    graph = read_graph(flags["input"])
    inputs = find_nodes(graph, flags["input_names"], "input_names", optional=True)
    outputs = find_nodes(graph, flags["output_names"], "output_names")
    types = _numbers(flags["placeholder_type_enum"])
    small = stripped(graph, inputs, outputs, types, stream, _shapes(graph, inputs))
    path, form = Path(flags["output"]), "pb" if flags["frozen_graph"] else "pbtxt"
    refuse_source(Source(Path(flags["input"]), None), path, form)
    variables = sum(node.op in VARIABLES for node in small.nodes.values())
    if variables:
        stream.say(
            f"{counted(variables, 'variable')} in the graph: it is stripped only, since batch norms"
            " can be folded once variables are constants. Freeze it first."
        )
        write_graph(small, path, flags["frozen_graph"])
        ops = len(small.nodes)
    else:
        convert = partial(
            exporters.convert,
            small,
            path,
            outputs=outputs,
            set=comma_separated(flags["placeholder_to_const_names"]),
            options=ModelOptions(optimize=True),
            drop_checks=True,
            keep_training=True,
            overwrite=True,
            to=form,
            progress=stream,
        )
        try:
            done = convert()
        except UnsupportedError as error:
            done = convert(verify="none")
            stream.say(f"Not run beside its source: {error.message}")
        ops = done.nodes or 0
    words: list[str | Path] = ["slimtune", "convert", Path(flags["input"]), path]
    if path.suffix != f".{form}":
        words += ["--to", form]
    for option, names in (
        ("--inputs", inputs),
        ("--outputs", outputs),
        ("--set", comma_separated(flags["placeholder_to_const_names"])),
    ):
        words += [option, ",".join(names)] if names else []
    words += ["--optimize", "--drop-checks", "--keep-training", "--overwrite"]
    finish(
        stream,
        {"path": str(path), "ops": ops, "optimized": not variables},
        [f"{ops} ops in the final graph, {len(graph.nodes)} in {flags['input']}."],
        *([] if variables else [shell_words(*words)]),
    )


def _shapes(graph: Graph, inputs: Sequence[str]) -> dict[str, Shape]:
    """The shapes of inputs, as far as they follow from those of the graph's placeholders."""
    from exporters.inspecting.endpoints import placeholders
    from exporters.names import TensorName
    from exporters.rewrites.prune import prune
    from exporters.shapes.inference import ShapeInference

    before = prune(graph, [TensorName(name) for name in inputs]).graph
    known = {tensor: graph.shape(tensor) for tensor in placeholders(before)}
    given = {tensor: shape for tensor, shape in known.items() if shape is not None}
    shapes = ShapeInference(before, given).shapes
    return {name: shapes[TensorName(name)] for name in inputs if TensorName(name) in shapes}


def _numbers(text: str) -> Sequence[int]:
    from scripts.classic.nodes import comma_separated

    numbers = [whole_number(word) for word in comma_separated(text)]
    found = [number for number in numbers if number is not None]
    if not found or len(found) < len(numbers):
        raise UsageError(
            "--placeholder_type_enum holds no numbers of dtypes.",
            expected="as in 1 (float32) or 1,4 (float32, uint8)",
            received=text,
        )
    return found


if __name__ == "__main__":
    main(["classic", "optimize_for_inference", *sys.argv[1:]])
