"""Which ops of a graph from outside reach beyond it: to files, the network, Python, the process.

A graph is a program. Before one is run, its ops are compared with this list; what TensorFlow
does not know cannot be run at all.

Source:
  TensorFlow's op registry, read op by op; TensorFlow's own advice in its SECURITY.md is to
  run models of others as one would run their programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from checkpoints.errors import GraphError, listed
from checkpoints.messages import GraphDef, NodeDef

_UNSAFE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (
            r"ReadFile|MatchingFiles|(Experimental)?MatchingFilesDataset|WholeFileReader(V2)?"
            r"|TextLineReader(V2)?|FixedLengthRecordReader(V2)?|TFRecordReader(V2)?|LMDBReader"
            r"|TextLineDataset|TFRecordDataset(V2)?|FixedLengthRecordDataset(V2)?"
            r"|(Experimental)?CSVDataset(V2)?|(Experimental)?LMDBDataset|(Experimental)?SqlDataset"
            r"|LoadDataset|SnapshotDatasetReader|SnapshotNestedDatasetReader|SnapshotChunkDataset"
            r"|ListSnapshotChunksDataset|RecordInput|Skipgram|FixedUnigramCandidateSampler"
            r"|InitializeTableFromTextFile(V2)?|LoadAndRemapMatrix|GenerateVocabRemapping"
            r"|ImmutableConst|Restore|RestoreSlice|RestoreV2|DTensorRestoreV2"
            r"|(Encode|Decode)Proto(V2)?",
            "reads files",
        ),
        (
            r"WriteFile|Save|SaveSlices|SaveV2|MergeV2Checkpoints|SaveDataset(V2)?"
            r"|DistributedSave|SnapshotDataset(V2)?|CacheDataset(V2)?|CalibrationStatisticsSaver"
            r"|(Experimental)?DatasetToTFRecord|DumpTensor"
            r"|Create(SummaryFileWriter|SummaryDbWriter)|ImportEvent|FileSystemSetConfiguration",
            "writes files",
        ),
        (
            r"Copy|CopyHost|Debug(Identity|NanCount|NumericSummary)(V2|V3)?",
            "sends tensors to an address or a file for debugging",
        ),
        (r"PyFunc|PyFuncStateless|EagerPyFunc", "calls Python"),
        (r"Abort", "ends the process"),
        (
            r"Rpc[A-Z]\w*|RemoteCall|DataServiceDataset(V2|V3|V4)?|RegisterDataset(V2)?"
            r"|_?Send|_?Recv|_Host(Send|Recv)|Collective[A-Z]\w*|_?Nccl[A-Z]\w*"
            r"|_?Xla(Send|Recv)\w*|_?XlaHostCompute(Mlir)?|_?\w*DistributedTPU\w*"
            r"|\w*TPUEmbedding\w*|_?TPU(Compile|Execute)\w*|ConfigureAndInitializeGlobalTPU",
            "talks to other processes or machines",
        ),
        (
            r"XlaCustomCall(V2)?|XlaCallModule|XlaLaunch(V2)?|TRTEngineOp|MlirPassthroughOp"
            r"|RemoteFusedGraphExecute|DatasetFromGraph",
            "runs a program that is not in the graph's nodes",
        ),
    )
)


class UnsafeNode(NamedTuple):
    """A node that reaches beyond its graph.

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


def unsafe_nodes(graph_def: GraphDef) -> list[UnsafeNode]:
    """The nodes, those in functions included, that reach beyond the graph; in file order."""
    reasons: dict[str, str | None] = {}
    found = []
    for prefix, node in _all_nodes(graph_def):
        op = node.op
        if op not in reasons:
            reasons[op] = reason_against(op)
        reason = reasons[op]
        if op == "PrintV2" and _prints_to_file(node):
            reason = "writes files"
        if reason is not None:
            found.append(UnsafeNode(prefix + node.name, op, reason))
    return found


def reason_against(op: str) -> str | None:
    """What an op does beyond the graph; None for one that only computes."""
    for pattern, reason in _UNSAFE:
        if pattern.fullmatch(op):
            return reason
    return None


def refuse_unsafe(graph_def: GraphDef, trust: bool, label: str = "The graph") -> None:
    """Raises GraphError where a graph to be run reaches beyond itself and is not trusted."""
    if trust:
        return
    found = unsafe_nodes(graph_def)
    if found:
        raise GraphError(
            f"{label} is not run, since it does more than compute:\n{listed(found)}",
            expected="ops that only compute",
            next_step="Add --trust if you know where the file comes from.",
        )


def silence_prints(graph_def: Any) -> None:
    """Makes the nodes that print pass on what they are given and print nothing, in place.

    What a graph from outside prints would stand among our own lines, and steer the terminal.

    Args:
      graph_def: a GraphDef, ours or TensorFlow's.
    """
    for _, node in _all_nodes(graph_def):
        if node.op == "Print":
            controls = [name for name in node.input if name.startswith("^")]
            node.op, node.input[:] = "Identity", [node.input[0], *controls]
            _keep_attributes(node, ("T",))
        elif node.op == "PrintV2":
            controls = [name for name in node.input if name.startswith("^")]
            node.op, node.input[:] = "NoOp", controls
            _keep_attributes(node, ())


def _keep_attributes(node: NodeDef, names: tuple[str, ...]) -> None:
    for name in list(node.attr):
        if name not in names and not name.startswith("_"):
            del node.attr[name]


def _prints_to_file(node: NodeDef) -> bool:
    stream = node.attr["output_stream"].s if "output_stream" in node.attr else b""
    return bytes(stream).startswith(b"file://")


def _all_nodes(graph_def: Any) -> Iterator[tuple[str, NodeDef]]:
    for node in graph_def.node:
        yield "", node
    for function in graph_def.library.function:
        for node in function.node_def:
            yield f"{function.signature.name}/", node
