"""Whether a graph is whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import NotFoundError
from checkpoints.messages import GraphDef, MetaGraphDef
from exporters.options import ModelOptions

FLOAT = np.dtype("float32")


@pytest.fixture
def found(tmp_path):
    """The kinds, nodes and details of what is found in a GraphDef or MetaGraphDef."""

    def run(message):
        path = tmp_path / ("g.pb" if isinstance(message, GraphDef) else "g.meta")
        path.write_bytes(message.SerializeToString())
        return [(entry.kind, entry.name, entry.detail) for entry in exporters.verify(path).problems]

    return run


def test_whole_files(dense_net, tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", dense_net.values)
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    (tmp_path / "m.ckpt.meta").write_bytes(meta.SerializeToString())
    checked = exporters.verify(tmp_path / "m.ckpt.meta")
    assert checked.is_ok and (checked.nodes, checked.variables) == (8, 2)
    assert checked.checkpoint == tmp_path / "m.ckpt"
    frozen = exporters.convert(tmp_path / "m.ckpt", tmp_path / "m.pb").path
    thawed = exporters.thaw(frozen, tmp_path / "t.ckpt").path
    kept = ModelOptions(keep_variables=True)
    model = exporters.convert(tmp_path / "m.ckpt", f"{tmp_path}/m/", options=kept).path
    for path in (frozen, f"{thawed}.meta", model, model / "saved_model.pb"):
        checked = exporters.verify(path)
        assert checked.is_ok, checked.problems
    assert checked.variables == 2


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda g: g.node[5].input.append("nobody"), ("edge", "matmul", "It takes nobody")),
        (lambda g: g.node[5].input.append("^nobody"), ("edge", "matmul", "It takes ^nobody")),
        (
            lambda g: g.node[5].input.insert(0, "^x"),
            ("edge", "matmul", "It takes x after nodes that it only waits for"),
        ),
        (
            lambda g: g.node.add(name="c", op="Const"),
            ("constant", "c", "Values of dtype dtype 0 cannot be read"),
        ),
        (
            lambda g: (
                g.node.add(name="p", op="PartitionedCall")
                .attr["f"]
                .func.MergeFromString(b"\n\x01f")
            ),
            ("function", "p", "It calls the function 'f'"),
        ),
        (
            lambda g: g.node[0].input.append("probs"),
            ("loop", "x", "4 nodes wait for each other in a circle"),
        ),
        (
            lambda g: g.node.add(name="slimtune/metadata", op="NoOp"),
            ("metadata", None, "that is no metadata"),
        ),
        (lambda g: g.node.add(name="probs", op="NoOp"), ("graph", None, "several nodes of one")),
    ],
)
def test_what_is_found(dense_net, found, change, finding):
    change(dense_net.graph_def)
    kind, name, detail = found(dense_net.graph_def)[0]
    assert (kind, name) == finding[:2]
    assert finding[2] in detail


def test_loops_of_control_flow_are_none(builder, found):
    builder.add("Enter", "enter", "start", T=FLOAT)
    builder.const("start", np.float32(1))
    builder.add("Merge", "merge", "enter", "next", T=FLOAT)
    builder.add("NextIteration", "next", "merge", T=FLOAT)
    assert found(builder.graph_def) == []


def test_outputs_that_an_op_does_not_have(dense_net, found):
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    definition = meta.meta_info_def.stripped_op_list.op.add(name="Softmax")
    definition.output_arg.add(name="softmax")
    meta.graph_def.node.add(name="more", op="Identity", input=["probs:1"])
    assert ("edge", "more", "It takes probs:1, and Softmax has fewer outputs.") in found(meta)


def test_functions(builder, found):
    function = builder.graph_def.library.function.add()
    function.signature.name = "f"
    function.signature.output_arg.add(name="y")
    function.node_def.add(name="n", op="Identity", input=["a", "^b"])
    builder.add("f", "call")
    assert found(builder.graph_def) == [
        ("function", "f/n", "It takes a, which is not there."),
        ("function", "f/n", "It takes ^b, which is not there."),
        ("function", "f", "Its result y is nothing."),
    ]


def test_signatures_and_savers(dense_net, found):
    meta = MetaGraphDef(graph_def=dense_net.graph_def)
    meta.signature_def["s"].outputs["o"].name = "nobody:0"
    meta.saver_def.save_tensor_name = "nobody"
    kinds = {kind: detail for kind, _, detail in found(meta)}
    assert kinds["signature"] == "The output o of s is nobody:0, which is not there."
    assert "the SaverDef names nodes that the graph does not have" in kinds["saver"]


def test_a_checkpoint_that_does_not_fit(dense_net, tmp_path):
    frozen = exporters.freeze(dense_net.graph, dense_net.values, path=tmp_path / "m.pb").path
    path = exporters.thaw(frozen, tmp_path / "t.ckpt").path
    meta = Path(f"{path}.meta").read_bytes()
    checkpoints.write(path, {"fc/weights": np.zeros((4, 5), np.float32)}, overwrite=True)
    Path(f"{path}.meta").write_bytes(meta)
    problems = exporters.verify(f"{path}.meta").problems
    assert [(entry.kind, entry.name) for entry in problems] == [
        ("checkpoint", "fc/weights"),
        ("checkpoint", "fc/biases"),
    ]
    assert "The checkpoint holds float32 [4, 5], the graph declares [4, 4]" in problems[0].detail
    assert "which the checkpoint lacks" in problems[1].detail


def test_a_saved_model_without_its_files(dense_net, tmp_path, shared):
    source = shared / "data/models/half_plus_two_saved_model"
    assert exporters.verify(source).is_ok
    model = tmp_path / "model"
    model.mkdir()
    (model / "saved_model.pb").write_bytes((source / "saved_model.pb").read_bytes())
    assert [(problem.kind, problem.path) for problem in exporters.verify(model).problems] == [
        ("missing-file", str(model / "assets/foo.txt")),
        ("missing-file", str(model / "variables/variables.index")),
    ]
    frozen = exporters.freeze(dense_net.graph, dense_net.values, path=tmp_path / "m.pb").path
    constants = exporters.convert(frozen, tmp_path / "constants", to="saved-model").path
    assert not (constants / "variables").exists()
    assert exporters.verify(constants).is_ok


def test_what_is_no_graph(tmp_path):
    with pytest.raises(NotFoundError):
        exporters.verify(tmp_path / "none.pb")
    (tmp_path / "x.pb").write_bytes(b"no graph")
    checked = exporters.verify(tmp_path / "x.pb")
    assert (checked.kind, checked.problems[0].kind) == ("other", "graph")
