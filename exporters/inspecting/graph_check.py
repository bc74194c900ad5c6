"""Whether a graph is whole: `exporters.verify`.

Nothing is run. Names, edges, constants, functions, signatures and the Saver are looked at one by
one, so that one fault does not hide others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import checkpoints
from checkpoints.errors import GraphError, SlimtuneError, UnsupportedError
from checkpoints.family import Family, resolve
from checkpoints.messages import NodeDef
from checkpoints.progress import SILENT, Progress
from checkpoints.verifying import Problem
from exporters.calls import calls_of, producer_in_function
from exporters.constants import constant_value
from exporters.graph import Graph, dimensions, read_graph
from exporters.metadata import read_metadata
from exporters.names import TensorName, is_control, node_of, tensor_of
from exporters.ops import VARIABLES
from exporters.partitions import with_parts
from exporters.saved_models.assets import DIRECTORY, asset_files
from exporters.savers.names import saved_names
from exporters.savers.nodes import read_saver
from exporters.sources import variables_of_saved_model
from exporters.values import header_of

_META = ".meta"
_LOOPS_BACK = frozenset({"NextIteration", "RefNextIteration"})
_FUNCTION_ATTRIBUTES = ("f", "then_branch", "else_branch", "cond", "body")


@dataclass(frozen=True)
class GraphCheck:
    """What was found of a graph and of what belongs to it.

    Attributes:
      path: the file, or the SavedModel's directory.
      kind: "graph-def", "meta-graph" or "saved-model"; "other" where it cannot be read.
      problems: the findings: "graph" (it cannot be read), "edge", "constant", "function", "loop",
        "checkpoint" (name a node), "signature", "saver", "metadata", and those of a checkpoint.
      nodes: how many nodes there are.
      checkpoint: the prefix of its variables, where there are some.
      variables: how many variables the checkpoint has.
      num_bytes: the size of all files.
      notes: what could not be compared, a line each.
    """

    path: Path
    kind: str
    problems: tuple[Problem, ...]
    nodes: int
    checkpoint: Path | None
    variables: int
    num_bytes: int
    notes: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether nothing was found."""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the verb."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "ok": self.is_ok,
            "problems": [problem._asdict() for problem in self.problems],
            "nodes": self.nodes,
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
            "variables": self.variables,
            "bytes": self.num_bytes,
            "notes": list(self.notes),
        }


def verify(path: str | os.PathLike[str], *, progress: Progress = SILENT) -> GraphCheck:
    """Looks at all of a graph, and at the checkpoint and the assets that belong to it.

    Args:
      path: a GraphDef, MetaGraphDef or SavedModel, binary or text; or a SavedModel's directory.
        Of a .meta the checkpoint beside it is verified too.
      progress: told how far it is.

    Raises:
      NotFoundError: nothing of that name is there.
    """
    place = Path(path)
    graph: Graph | None = None
    problems: list[Problem] = []
    try:
        graph = read_graph(place)
        with progress.task(f"Verifying {place.name}", len(graph.nodes), "nodes") as task:
            file = str(graph.path)
            problems += [Problem(kind, file, name, text) for kind, name, text in _problems(graph)]
            task.advance(len(graph.nodes))
    except GraphError as error:
        problems.append(Problem("graph", str(place), None, _one_line(error)))
    family, missing = _family(place, graph)
    problems += missing
    num_bytes = place.stat().st_size if place.is_file() else sum(map(_size, place.rglob("*")))
    variables = 0
    notes: tuple[str, ...] = ()
    if family is not None:
        checked = checkpoints.verify(family.prefix, progress=progress)
        problems += checked.problems
        variables, notes = checked.num_variables, checked.notes
        num_bytes += checked.num_bytes if place.is_file() else 0
        if checked.is_ok and graph is not None:
            found = _misfits(graph, family)
            problems += [Problem("checkpoint", str(graph.path), *entry) for entry in found]
    return GraphCheck(
        place,
        _kind(place, graph),
        tuple(problems),
        0 if graph is None else len(graph.graph_def.node),
        None if family is None else family.prefix,
        variables,
        num_bytes,
        notes,
    )


def _kind(place: Path, graph: Graph | None) -> str:
    if graph is not None:
        return graph.kind
    return "meta-graph" if place.suffix == _META else "other"


_Finding = tuple[str, str | None, str]
"""Kind, node, detail."""


def _problems(graph: Graph) -> Iterator[_Finding]:
    yield from _of_edges(graph)
    yield from _of_constants(graph)
    yield from _of_functions(graph)
    yield from _of_loops(graph)
    yield from _of_signatures(graph)
    for kind, check in (("saver", read_saver), ("metadata", read_metadata)):
        try:
            check(graph)
        except SlimtuneError as error:
            yield kind, None, _one_line(error)


def _of_edges(graph: Graph) -> Iterator[_Finding]:
    for name, node in graph.nodes.items():
        seen_control = False
        for reference in node.input:
            producer = graph.nodes.get(node_of(reference))
            if producer is None:
                yield "edge", name, f"It takes {reference}, which is not there."
            elif is_control(reference):
                seen_control = True
                continue
            elif not _has_output(graph, producer, tensor_of(reference)):
                yield "edge", name, f"It takes {reference}, and {producer.op} has fewer outputs."
            if seen_control and not is_control(reference):
                yield "edge", name, f"It takes {reference} after nodes that it only waits for."


def _has_output(graph: Graph, producer: NodeDef, tensor: TensorName) -> bool:
    """Whether a node has an output, as far as the file says how many there are."""
    definition = graph.op_definitions.get(producer.op)
    if definition is None and producer.op in graph.functions:
        definition = graph.functions[producer.op].signature
    if definition is None or any(
        output.number_attr or output.type_list_attr for output in definition.output_arg
    ):
        return True
    return tensor.output_index < len(definition.output_arg)


def _of_constants(graph: Graph) -> Iterator[_Finding]:
    for prefix, node in _all_nodes(graph):
        if node.op == "Const":
            try:
                constant_value(node)
            except UnsupportedError as error:
                # A dtype that a later TensorFlow may have is no fault of the file.
                if "value" not in node.attr or not node.attr["value"].tensor.dtype:
                    yield "constant", f"{prefix}{node.name}", _one_line(error)
            except GraphError as error:
                yield "constant", f"{prefix}{node.name}", _one_line(error)


def _of_functions(graph: Graph) -> Iterator[_Finding]:
    for prefix, node in _all_nodes(graph):
        named = [
            node.attr[attribute].func.name
            for attribute in _FUNCTION_ATTRIBUTES
            if attribute in node.attr and node.attr[attribute].HasField("func")
        ]
        named += [call.function for call in calls_of(node, graph.functions)]
        for function in dict.fromkeys(named):
            if function not in graph.functions:
                detail = f"It calls the function {function!r}, which is not there."
                yield "function", f"{prefix}{node.name}", detail
    for name, function in graph.functions.items():
        known = {argument.name for argument in function.signature.input_arg}
        known |= {node.name for node in function.node_def}
        for node in function.node_def:
            for reference in node.input:
                if producer_in_function(reference) not in known:
                    detail = f"It takes {reference}, which is not there."
                    yield "function", f"{name}/{node.name}", detail
        for output in function.signature.output_arg:
            reference = function.ret.get(output.name, "")
            if producer_in_function(reference) not in known:
                yield "function", name, f"Its result {output.name} is {reference or 'nothing'}."


def _of_loops(graph: Graph) -> Iterator[_Finding]:
    """Nodes that wait for themselves otherwise than in a loop of control flow."""
    waiting = dict.fromkeys(graph.nodes, 0)
    takers: dict[str, list[str]] = {}
    for name, node in graph.nodes.items():
        for producer in {node_of(reference) for reference in node.input}:
            if producer in graph.nodes and graph.nodes[producer].op not in _LOOPS_BACK:
                waiting[name] += 1
                takers.setdefault(producer, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    done = 0
    while ready:
        done += 1
        for taker in takers.get(ready.pop(), ()):
            waiting[taker] -= 1
            if not waiting[taker]:
                ready.append(taker)
    if done < len(graph.nodes):
        first = next(name for name, count in waiting.items() if count)
        yield "loop", first, f"{len(graph.nodes) - done} nodes wait for each other in a circle."


def _of_signatures(graph: Graph) -> Iterator[_Finding]:
    for key, signature in graph.signatures.items():
        for role, infos in (("input", signature.inputs), ("output", signature.outputs)):
            for name in sorted(infos):
                tensor = infos[name].name
                if tensor and tensor_of(tensor).node not in graph.nodes:
                    detail = f"The {role} {name} of {key} is {tensor}, which is not there."
                    yield "signature", None, detail


def _all_nodes(graph: Graph) -> Iterator[tuple[str, NodeDef]]:
    for node in graph.nodes.values():
        yield "", node
    for name, function in graph.functions.items():
        for node in function.node_def:
            yield f"{name}/", node


def _family(place: Path, graph: Graph | None) -> tuple[Family | None, list[Problem]]:
    """The checkpoint that goes with a graph, and files that are absent."""
    problems = []
    family = None
    try:
        if graph is not None and graph.kind == "saved-model":
            directory = place if place.is_dir() else place.parent
            problems = [
                Problem("missing-file", str(directory / DIRECTORY / name), None, "It is absent.")
                for name in asset_files(graph)
                if not (directory / DIRECTORY / name).is_file()
            ]
            family = variables_of_saved_model(place)
            if family is None and _has_variables(graph):
                index = str(directory / "variables" / "variables.index")
                problems.append(Problem("missing-file", index, None, "It is absent."))
        elif place.suffix == _META:
            family = resolve(place)
    except SlimtuneError as error:
        # A .meta whose variables are constants is whole without a checkpoint.
        if graph is None or _has_variables(graph):
            problems.append(Problem("missing-file", str(place), None, _one_line(error)))
    return family, problems


def _has_variables(graph: Graph) -> bool:
    return any(node.op in VARIABLES for node in graph.graph_def.node)


def _misfits(graph: Graph, family: Family) -> Iterator[tuple[str, str]]:
    """Variables that the graph's Saver would not find, or would find in another dtype or shape."""
    names = saved_names(graph)
    with checkpoints.open(family, plain_names=False) as saved:
        values = with_parts(graph, graph, saved)
        parts = getattr(values, "parts", {})
        for variable, key in names.items():
            name = variable if variable in parts else key
            if name not in values:
                yield variable, f"The Saver restores it from {key}, which the checkpoint lacks."
                continue
            node, header = graph.nodes[variable], header_of(values, name)
            declared = dimensions(node.attr["shape"].shape) if "shape" in node.attr else None
            number = node.attr["dtype"].type if "dtype" in node.attr else 0
            if number != header.dtype.number or not _fits(declared, header.shape):
                sizes = "?" if declared is None else list(declared)
                yield variable, f"The checkpoint holds {header}, the graph declares {sizes}."


def _fits(declared: tuple[int | None, ...] | None, shape: tuple[int, ...]) -> bool:
    return declared is None or (
        len(declared) == len(shape)
        and all(size in (None, known) for size, known in zip(declared, shape, strict=True))
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _one_line(error: SlimtuneError) -> str:
    parts: Iterable[tuple[str, str | None]] = (
        ("", error.message),
        ("expected ", error.expected),
        ("received ", error.received),
    )
    return " ".join(f"{word}{' '.join(part.split())}" for word, part in parts if part)
