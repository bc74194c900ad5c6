import re

import numpy as np
import pytest

from checkpoints.errors import GraphError
from checkpoints.messages import GraphDef, NodeDef
from exporters.safety import reason_against, refuse_unsafe, silence_prints, unsafe_nodes

FLOAT = np.dtype("float32")

SUSPICIOUS = re.compile(
    r"File|Read|Write|Save|Restore|PyFunc|Rpc|Recv|Send|Remote|Debug|Print|Load|Snapshot|Cache|Sql"
    r"|LMDB|Service|Proto|Collective|Nccl|Host|Dump|Import|Export|CustomCall|Dataset(V\d)?$|TPU"
    r"|Summary|Vocab|Remap|Copy|Graph"
)
"""Op names that sound as if they reached beyond the graph; each has been looked at."""

LOOKED_AT = re.compile(
    # Variables, arrays, queues and tables in memory.
    r"_?Read(er)?Variable\w*|_ReadVariablesOp|TensorArray\w+|Reader\w+|IdentityReader(V2)?"
    r"|LookupTable(Import|Export)\w*|DisableCopyOnRead|\w*MemoryCache"
    # Data sets that transform others, and what describes them.
    r"|(?!TFRecord|TextLine|FixedLength|\w*CSV|\w*LMDB|\w*Sql|Snapshot|ListSnapshot|Load|Save|Cache"
    r"|DataService|Register|\w*MatchingFiles|\w*ToTFRecord|DatasetFrom)\w+Dataset(V\d)?"
    r"|DatasetToGraph(V2)?"
    # Pictures and texts for TensorBoard, made in memory; printing to the standard streams.
    r"|\w*Summary(V2)?|\w*SummaryWriter|Write\w*Summary|Summary\w+|\w+QuantileSummaries"
    r"|\w+AddSummaries|StatsAggregator\w+|Print(V2)?|ParallelInterleave\w+|\w+ForGraph"
    # Names of files that are made, not opened.
    r"|Sharded(Filename|Filespec)"
    # Copies between the devices of one process; placement on TPUs.
    r"|_Copy(From|To)\w+|_Host(Cast)|HostConst|_?TPU\w+|Tpu\w+|\w+TPU\w*|DeepCopy|TPUCopy\w+"
    # Numbers that describe the graph.
    r"|GraphDefVersion|RequiresOlderGraphVersion|IteratorGetModelProto|TpuHandleToProtoKey"
    r"|GatherToHost|IsBoosted\w+|\w*Xla\w*|BoostedTrees\w+|DebugGradient(Ref)?Identity|_Mkl\w+"
    r"|BarrierReadySize|DeleteRpcFutureResource|Snapshot|CopyToMesh(Grad)?|CopyOp"
    r"|ReadVariableXlaSplitND|InitializeTableFromDataset|RngReadAndSkip|DTensor\w+"
)


@pytest.mark.parametrize(
    ("op", "word"),
    [
        ("ReadFile", "reads files"),
        ("MatchingFiles", "reads files"),
        ("TFRecordDatasetV2", "reads files"),
        ("WholeFileReaderV2", "reads files"),
        ("InitializeTableFromTextFileV2", "reads files"),
        ("RestoreV2", "reads files"),
        ("WriteFile", "writes files"),
        ("SaveV2", "writes files"),
        ("CacheDataset", "writes files"),
        ("PyFunc", "calls Python"),
        ("EagerPyFunc", "calls Python"),
        ("Abort", "ends the process"),
        ("PyFuncStateless", "calls Python"),
        ("RpcCall", "other processes"),
        ("DataServiceDatasetV4", "other processes"),
        ("CollectiveReduceV2", "other processes"),
        ("DebugIdentityV3", "for debugging"),
        ("XlaCustomCallV2", "not in the graph's nodes"),
        ("DatasetFromGraph", "not in the graph's nodes"),
    ],
)
def test_what_reaches_beyond_the_graph(op, word):
    assert word in reason_against(op)


@pytest.mark.parametrize(
    "op",
    ["Conv2D", "ReadVariableOp", "DecodeJpeg", "Print", "Assert", "PartitionedCall", "Copying"],
)
def test_what_only_computes(op):
    assert reason_against(op) is None


def test_nodes_and_functions_are_looked_into(dense_net):
    function = dense_net.graph_def.library.function.add()
    function.signature.name = "map"
    function.node_def.add(name="read", op="ReadFile")
    dense_net.add("PyFunc", "python", "x")
    dense_net.add("PrintV2", "to_terminal", "x", output_stream=b"stderr")
    dense_net.add("PrintV2", "to_file", "x", output_stream=b"file:///tmp/out")
    dense_net.add("PrintV2", "to_default", "x")
    found = [str(node) for node in unsafe_nodes(dense_net.graph_def)]
    assert found == [
        "python (PyFunc): calls Python",
        "to_file (PrintV2): writes files",
        "map/read (ReadFile): reads files",
    ]


def test_they_are_refused_unless_trusted(dense_net):
    refuse_unsafe(dense_net.graph_def, trust=False)
    dense_net.add("WriteFile", "write", "x")
    with pytest.raises(GraphError, match=r"m\.pb is not run") as caught:
        refuse_unsafe(dense_net.graph_def, trust=False, label="m.pb")
    assert "write (WriteFile): writes files" in caught.value.message
    assert caught.value.next_step == "Add --trust if you know where the file comes from."
    refuse_unsafe(dense_net.graph_def, trust=True)


def test_prints_become_what_passes_on_and_what_does_nothing(dense_net):
    dense_net.add("Print", "said", "x", "x", "^y", T=FLOAT, message=b"\x1b[31m", first_n=3)
    function = dense_net.graph_def.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="print", op="PrintV2", input=["text:output:0", "^before"])
    function.node_def[0].attr["output_stream"].s = b"stdout"
    silence_prints(dense_net.graph_def)
    said = NodeDef(name="said", op="Identity", input=["x", "^y"])
    said.attr["T"].type = 1
    assert dense_net.graph_def.node[-1] == said
    assert function.node_def[0] == NodeDef(name="print", op="NoOp", input=["^before"])


@pytest.mark.tensorflow
@pytest.mark.parametrize("trust", [False, True])
def test_what_a_graph_prints_is_heard_only_where_it_is_trusted(capfd, trust):
    from exporters.runtime import GraphRunner, load_tensorflow

    tf = load_tensorflow()
    with tf.Graph().as_default() as graph:
        given = tf.compat.v1.placeholder(tf.float32, [None], "x")

        @tf.function
        def aloud(value):
            tf.raw_ops.PrintV2(input="\x1b[31mv2", output_stream="stdout")
            return value + 1.0

        tf.compat.v1.Print(aloud(given), [given], "\x1b[31mv1", name="y")
    with GraphRunner(as_ours(graph), ["x"], ["y"], trust=trust) as runner:
        (found,) = runner.run(np.array([1, 2], np.float32))
    assert found.tolist() == [2.0, 3.0]
    heard = capfd.readouterr()
    assert ("\x1b[31mv1" in heard.err, "\x1b[31mv2" in heard.out) == (trust, trust)


def as_ours(graph):
    return GraphDef.FromString(graph.as_graph_def().SerializeToString())


@pytest.mark.tensorflow
class TestAgainstTheRegistry:
    @pytest.fixture
    def registry(self):
        from exporters.runtime import load_tensorflow

        load_tensorflow()
        from tensorflow.core.framework import op_def_pb2
        from tensorflow.python.client import pywrap_tf_session as session

        ops = op_def_pb2.OpList.FromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
        return {op.name: op for op in ops.op}

    def test_every_op_with_a_suspicious_name_was_looked_at(self, registry):
        unknown = [
            name
            for name in registry
            if SUSPICIOUS.search(name)
            and reason_against(name) is None
            and not LOOKED_AT.fullmatch(name)
            and "Test" not in name
        ]
        assert unknown == []

    def test_every_op_that_takes_a_files_name_is_known(self, registry):
        names = re.compile(
            r"(file_?name|file_?pattern|file_prefix|ckpt_path|filespec|address|path)s?"
        )
        takers = [
            name
            for name, op in registry.items()
            if any(names.fullmatch(argument.name) for argument in op.input_arg)
            or any(names.fullmatch(attribute.name) for attribute in op.attr)
        ]
        assert len(takers) > 20
        assert [name for name in takers if reason_against(name) is None] == []

    def test_writes_are_told_from_reads_as_the_registry_has_them(self, registry):
        from exporters.ops import writes_variable

        by_reference = {
            name
            for name, op in registry.items()
            if any(argument.is_ref for argument in op.input_arg)
            and any(argument.is_ref for argument in op.output_arg)
        }
        passes = re.compile(r"Ref(Switch|Merge|Select|Exit|Enter|NextIteration|Identity)")
        odd = {"DestroyTemporaryVariable", "DebugGradientRefIdentity"}
        writers = {name for name in by_reference if not passes.fullmatch(name)} - odd
        assert len(writers) > 40
        assert sorted(name for name in writers if not writes_variable(name)) == []
        for name in ("ScatterNd", "ReadVariableOp", "ResourceGather", "TensorScatterUpdate"):
            assert not writes_variable(name)


@pytest.mark.tensorflow
def test_a_graph_that_writes_is_never_run(tmp_path, builder):
    from exporters.runtime import GraphRunner

    target = tmp_path / "written"
    builder.add("Placeholder", "x", dtype=np.dtype("float32"), shape=(None, 4))
    builder.const("name", str(target))
    builder.const("text", "gotcha")
    builder.add("WriteFile", "write", "name", "text")
    builder.add("Identity", "out", "x", "^write", T=np.dtype("float32"))
    with pytest.raises(GraphError, match="write \\(WriteFile\\)"):
        GraphRunner(builder.graph, outputs=["out"])
    assert not target.exists()
    with GraphRunner(builder.graph, outputs=["out"], trust=True) as runner:
        runner.run(np.zeros((1, 4), np.float32))
    assert target.read_text() == "gotcha"
