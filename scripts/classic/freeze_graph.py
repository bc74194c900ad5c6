"""TensorFlow's freeze_graph: a graph and a checkpoint become one .pb, as it is, with nothing rewritten."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkpoints.command_lines import shell_words
from checkpoints.errors import BrokenFileError, UsageError, counted
from scripts.classic.flags import Flag, Idle, Refused, classic, finish
from scripts.main import main
from scripts.output import Output

if TYPE_CHECKING:
    from checkpoints.family import Family
    from exporters.freezing import FrozenGraph
    from exporters.graph import Graph
    from exporters.values import Array, Values

_LISTS = ("variable_names_whitelist", "variable_names_denylist", "variable_names_blacklist")
_CONTENT = "the content of the files tells."
_SAVER = "variables are read by their names, without running the graph's Saver."

FLAGS = (
    Flag("input_graph", str, "", "The graph: a GraphDef, binary or text.", path="graph"),
    Idle("input_binary", bool, False, _CONTENT),
    Flag(
        "input_saver",
        str,
        "",
        "A SaverDef, which says under which names variables were saved.",
        path="file",
    ),
    Flag("input_checkpoint", str, "", "The variables: a V1 or V2 checkpoint.", path="checkpoint"),
    Idle("checkpoint_version", int, 2, _CONTENT),
    Flag("input_meta_graph", str, "", "Or the graph in a .meta.", path="graph"),
    Flag(
        "input_saved_model_dir",
        str,
        "",
        "Or graph and variables in a SavedModel.",
        path="directory",
    ),
    Flag("saved_model_tags", str, "serve", "Tags of the SavedModel's graph, all of them."),
    Flag(
        "output_graph",
        str,
        "",
        "The .pb to write, in the place of what is there.",
        required=True,
        path="output",
    ),
    Flag("output_node_names", str, "", "Nodes of the answers, comma-separated.", required=True),
    Flag("variable_names_whitelist", str, "", "Freeze these variables only."),
    Flag("variable_names_denylist", str, "", "Leave these as variables."),
    Flag("variable_names_blacklist", str, "", "The older name of --variable_names_denylist."),
    Flag("initializer_nodes", str, "", "Nodes to run before the variables are read."),
    Refused(
        "clear_devices",
        bool,
        True,
        "a frozen graph that names devices of one machine does not run on another.",
        instead="Leave it out, and put tf.device around tf.import_graph_def.",
    ),
    Idle("restore_op_name", str, "save/restore_all", _SAVER),
    Idle("filename_tensor_name", str, "save/Const:0", _SAVER),
)


@classic(
    "freeze_graph",
    example="slimtune classic freeze_graph --input_graph=graph.pbtxt --input_checkpoint=model.ckpt"
    " --output_graph=frozen.pb --output_node_names=softmax",
    flags=FLAGS,
    today="slimtune convert",
    options={
        "checkpoint": "input_checkpoint",
        "graph": "input_graph",
        "outputs": "output_node_names",
        "overwrite": "another --output_graph",
    },
)
def command(output: Output, **flags: Any) -> None:
    """Freeze a graph: its variables become constants, and what the outputs do without goes.

    Nodes that belong to training stay, as with TensorFlow's own tool; `slimtune convert` puts a
    graph into inference mode.
    """
    from exporters.freezing import prepare
    from exporters.metadata import read_metadata
    from exporters.proofs.proved import write_proved
    from exporters.sources import Source, refuse_source
    from scripts.classic.nodes import comma_separated, find_nodes

    _check(flags)
    graph = _with_saver(_read_graph(flags), flags["input_saver"])
    outputs = find_nodes(graph, flags["output_node_names"], "output_node_names")
    family, path = _family(flags, output), Path(flags["output_graph"])
    refuse_source(Source(graph.path, family), path, "pb")
    with _opened(family) as values:
        if flags["initializer_nodes"]:
            nodes = find_nodes(graph, flags["initializer_nodes"], "initializer_nodes")
            values = _initialised(graph, values, nodes, outputs)
        frozen = prepare(
            graph,
            values,
            outputs=outputs,
            metadata=read_metadata(graph),
            keep_training=True,
            progress=output,
        )
        limited = _limited(graph, frozen, flags)
        left = len(frozen.variables) - len(limited.variables)
        if left:
            output.say(f"{counted(left, 'variable')} left as before; such a file is not proved.")
        proof = write_proved(limited, path, "none" if left else "auto", progress=output)
    finish(
        output,
        {
            "path": str(path),
            "variables": list(limited.variables),
            "ops": limited.num_nodes,
            "verification": proof.as_json(),
        },
        [
            f"Converted {counted(len(limited.variables), 'variable')} to const ops.",
            f"{limited.num_nodes} ops in the final graph.",
        ],
        *_same(flags, comma_separated(flags["output_node_names"])),
    )


def _check(flags: Mapping[str, Any]) -> None:
    """Raises UsageError where the flags do not say one graph and its variables."""
    graphs = ("input_graph", "input_meta_graph", "input_saved_model_dir")
    given = [name for name in graphs if flags[name]]
    if len(given) != 1:
        raise UsageError(
            "freeze_graph takes one graph.",
            expected=f"one of {', '.join('--' + name for name in graphs)}",
            received=" ".join(f"--{name}={flags[name]}" for name in given) or "none",
            next_step="Leave out the others." if given else "--input_graph=graph.pb",
        )
    if given != ["input_saved_model_dir"] and not flags["input_checkpoint"]:
        raise UsageError(
            f"--{given[0]} holds no values of variables.",
            expected="--input_checkpoint=model.ckpt",
            received="no --input_checkpoint",
            next_step="Name the checkpoint that was saved with the graph.",
        )


def _read_graph(flags: Mapping[str, Any]) -> Graph:
    from exporters.graph import read_graph
    from scripts.classic.nodes import comma_separated

    if flags["input_saved_model_dir"]:
        tags = comma_separated(flags["saved_model_tags"])
        return read_graph(flags["input_saved_model_dir"], tags)
    return read_graph(flags["input_graph"] or flags["input_meta_graph"])


def _with_saver(graph: Graph, path: str) -> Graph:
    """The graph with the SaverDef of a file, which leads to the names that variables have."""
    if not path:
        return graph
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    from checkpoints.messages import MetaGraphDef, SaverDef

    file = Path(path)
    data = file.read_bytes()
    try:
        saver = text_format.Parse(data.decode("utf-8"), SaverDef())
    except (text_format.ParseError, UnicodeDecodeError):
        try:
            saver = SaverDef.FromString(data)
        except DecodeError:
            saver = SaverDef()
    if not saver.restore_op_name:
        raise BrokenFileError(
            f"{file} holds no SaverDef.",
            expected="the message saver_def of a Saver, binary or text",
            next_step="Leave --input_saver out: variables are found by their names.",
        )
    return replace(graph, meta_graph=MetaGraphDef(saver_def=saver))


def _family(flags: Mapping[str, Any], output: Output) -> Family | None:
    """The files of the variables; None where a SavedModel has none."""
    from checkpoints.family import resolve
    from exporters.sources import variables_of_saved_model

    if flags["input_saved_model_dir"]:
        return variables_of_saved_model(Path(flags["input_saved_model_dir"]))
    family = resolve(flags["input_checkpoint"])
    if family.said is not None:
        output.say(f"Checkpoint {family.prefix}: {family.said}.")
    return family


@contextmanager
def _opened(family: Family | None) -> Iterator[Values]:
    """The variables by name."""
    import checkpoints
    from exporters.keyed_values import KeyedValues

    if family is None:
        yield {}
        return
    with checkpoints.open(family) as saved:
        yield saved if saved.objects is None else KeyedValues(saved, saved.objects.keys)


def _initialised(
    graph: Graph, values: Values, nodes: Sequence[str], outputs: Sequence[str]
) -> dict[str, Array]:
    """The variables after they were restored and nodes were run, in a session of TensorFlow."""
    from checkpoints.messages import GraphDef
    from exporters.live import session_values
    from exporters.names import TensorName
    from exporters.ops import VARIABLES
    from exporters.rewrites.prune import called_functions
    from exporters.runtime import load_tensorflow, session_config
    from exporters.safety import refuse_unsafe, silence_prints
    from exporters.savers.names import saved_names

    needed = graph.ancestors(nodes, control=True)
    run = GraphDef(node=[node for name, node in graph.nodes.items() if name in needed])
    run.library.function.extend(called_functions(graph, run.node))
    refuse_unsafe(run, False, graph.label)
    tf = load_tensorflow()
    v1 = tf.compat.v1
    names = saved_names(graph)
    with tf.Graph().as_default() as whole:
        message = v1.GraphDef.FromString(graph.graph_def.SerializeToString())
        silence_prints(message)
        tf.import_graph_def(message, name="")
        restored = []
        for name, node in graph.nodes.items():
            key = next((key for key in (names.get(name, name), name) if key in values), None)
            if node.op not in VARIABLES or key is None:
                continue
            variable = whole.get_tensor_by_name(f"{name}:0")
            holder = v1.placeholder(tf.as_dtype(node.attr["dtype"].type))
            if variable.dtype == tf.resource:
                assign = tf.raw_ops.AssignVariableOp(resource=variable, value=holder)
            else:
                assign = tf.raw_ops.Assign(ref=variable, value=holder, validate_shape=True).op
            restored.append((assign, holder, key))
    with v1.Session(graph=whole, config=session_config()) as session:
        for assign, holder, key in restored:
            session.run(assign, {holder: values[key]})
        session.run([whole.get_operation_by_name(name) for name in nodes])
        return session_values(session, graph, tuple(map(TensorName, outputs)))


def _limited(graph: Graph, frozen: FrozenGraph, flags: Mapping[str, Any]) -> FrozenGraph:
    """The frozen graph with those variables left as they are that the lists leave out."""
    from exporters.ops import VARIABLES
    from scripts.classic.nodes import find_nodes

    own = [name for name, node in graph.nodes.items() if node.op in VARIABLES]
    allowed, denied, denied_too = (
        find_nodes(graph, flags[flag], flag, among=own, optional=True) for flag in _LISTS
    )
    chosen = {
        name: variable
        for name, variable in frozen.variables.items()
        if name not in denied + denied_too and (not allowed or name in allowed)
    }
    handles = {holder: name for holder, name in frozen.handles.items() if name in chosen}
    return replace(frozen, variables=chosen, handles=handles)


def _same(flags: Mapping[str, Any], outputs: Sequence[str]) -> list[str]:
    """The command of today; none where it has no words for what was asked."""
    if any(flags[name] for name in (*_LISTS, "initializer_nodes", "input_saver")):
        return []
    checkpoint, path = Path(flags["input_checkpoint"]), Path(flags["output_graph"])
    words: list[str | Path] = ["slimtune", "convert"]
    if flags["input_saved_model_dir"]:
        words += [Path(flags["input_saved_model_dir"]), path]
    elif flags["input_meta_graph"]:
        words += [checkpoint, path, "--graph", Path(flags["input_meta_graph"])]
    else:
        words += [checkpoint, path, "--graph", Path(flags["input_graph"])]
    if path.suffix != ".pb":
        words += ["--to", "pb"]
    return [
        shell_words(*words, "--outputs", ",".join(outputs), "--keep-training", "--overwrite"),
    ]


if __name__ == "__main__":
    main(["classic", "freeze_graph", *sys.argv[1:]])
