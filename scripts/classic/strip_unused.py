"""TensorFlow's strip_unused: what of a graph lies between inputs and outputs, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from checkpoints.command_lines import shell_words
from scripts.classic.flags import Flag, Idle, classic, finish
from scripts.main import main
from scripts.output import Output

FLAGS = (
    Flag(
        "input_graph",
        str,
        "",
        "The graph: a GraphDef, binary or text.",
        required=True,
        path="graph",
    ),
    Idle("input_binary", bool, False, "the content of the file tells."),
    Flag(
        "output_graph",
        str,
        "",
        "The file to write; what is there is replaced.",
        required=True,
        path="output",
    ),
    Flag("output_binary", bool, True, "Whether it is binary; else text."),
    Flag("input_node_names", str, "", "Nodes that become placeholders, comma-separated."),
    Flag("output_node_names", str, "", "Nodes to keep, comma-separated.", required=True),
    Flag(
        "placeholder_type_enum",
        int,
        1,
        "Dtype of the placeholders, where the graph does not say it: 1 is float32, 4 is uint8.",
    ),
)


@classic(
    "strip_unused",
    example="slimtune classic strip_unused --input_graph=frozen.pb --output_graph=stripped.pb"
    " --input_node_names=input --output_node_names=softmax",
    flags=FLAGS,
    today="slimtune convert",
    options={
        "inputs": "input_node_names",
        "outputs": "output_node_names",
        "overwrite": "another --output_graph",
    },
)
def command(output: Output, **flags: Any) -> None:
    """Strip a graph: placeholders for its inputs, and of the rest what the outputs need."""
    from exporters.graph import read_graph
    from exporters.sources import Source, refuse_source
    from scripts.classic.nodes import comma_separated, find_nodes, stripped, write_graph

    graph = read_graph(flags["input_graph"])
    inputs = find_nodes(graph, flags["input_node_names"], "input_node_names", optional=True)
    outputs = find_nodes(graph, flags["output_node_names"], "output_node_names")
    path = Path(flags["output_graph"])
    refuse_source(Source(Path(flags["input_graph"]), None), path, "pb")
    result = stripped(graph, inputs, outputs, [flags["placeholder_type_enum"]], output)
    write_graph(result, path, flags["output_binary"])
    ops = len(result.graph_def.node)
    words: list[str | Path] = ["slimtune", "convert", Path(flags["input_graph"]), path]
    if path.suffix != (".pb" if flags["output_binary"] else ".pbtxt"):
        words += ["--to", "pb" if flags["output_binary"] else "pbtxt"]
    if inputs:
        words += ["--inputs", ",".join(comma_separated(flags["input_node_names"]))]
    words += ["--outputs", ",".join(comma_separated(flags["output_node_names"]))]
    finish(
        output,
        {"path": str(path), "ops": ops},
        [f"{ops} ops in the final graph."],
        shell_words(*words, "--keep-training", "--overwrite"),
    )


if __name__ == "__main__":
    main(["classic", "strip_unused", *sys.argv[1:]])
