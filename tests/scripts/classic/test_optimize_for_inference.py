"""optimize_for_inference beside TensorFlow's own tool: the same answers, no more nodes."""

from __future__ import annotations

import numpy as np
import pytest

from exporters.graph import read_graph

pytestmark = pytest.mark.tensorflow


def run(slimtune, *flags):
    return slimtune("classic", "optimize_for_inference", *flags)


@pytest.fixture(scope="module")
def frozen(tf, saved, tmp_path_factory):
    """The net, frozen by TensorFlow."""
    from tensorflow.python.tools import freeze_graph

    path = tmp_path_factory.mktemp("frozen") / "frozen.pb"
    with tf.Graph().as_default():
        freeze_graph.freeze_graph(
            *(str(saved.text), "", False, str(saved.prefix), "probabilities", None, None),
            *(str(path), True, ""),
        )
    return path


def old_tool(tf, path, inputs, outputs, **more):
    from tensorflow.python.tools import optimize_for_inference_lib

    message = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    return optimize_for_inference_lib.optimize_for_inference(message, inputs, outputs, 1, **more)


def test_a_frozen_graph_is_folded_and_answers_as_before(tf, slimtune, frozen, answers, tmp_path):
    path = tmp_path / "optimized.pb"
    code, out, err = run(
        *(slimtune, f"--input={frozen}", f"--output={path}", "--frozen_graph=True"),
        *("--input_names=pictures", "--output_names=probabilities"),
    )
    assert code == 0, err
    ops = {node.op for node in read_graph(path).graph_def.node}
    assert not ops & {"FusedBatchNormV3", "CheckNumerics", "Identity"}
    np.testing.assert_allclose(answers(tf, path), answers(tf, frozen), rtol=1e-5, atol=1e-6)
    count = len(read_graph(path).nodes)
    assert out == (
        f"{count} ops in the final graph, {len(read_graph(frozen).nodes)} in {frozen}.\n"
    )
    assert "--optimize --drop-checks --keep-training --overwrite" in err


def test_it_folds_what_tensorflows_tool_folds(tf, slimtune, frozen, answers, tmp_path):
    # Of the whole net TensorFlow's tool makes a graph that TensorFlow does not import.
    ours, theirs, output = tmp_path / "ours.pb", tmp_path / "theirs.pb", "body/Relu"
    code, _, err = run(
        *(slimtune, f"--input={frozen}", f"--output={ours}", "--input_names=pictures"),
        f"--output_names={output}",
    )
    assert code == 0, err
    theirs.write_bytes(old_tool(tf, frozen, ["pictures"], [output]).SerializeToString())
    found = answers(tf, ours, f"{output}:0")
    np.testing.assert_allclose(found, answers(tf, theirs, f"{output}:0"), rtol=1e-5, atol=1e-6)
    ops = [sorted(n.op for n in read_graph(path).graph_def.node) for path in (ours, theirs)]
    assert ops[0] == ops[1] == ["BiasAdd", "Const", "Const", "Conv2D", "Placeholder", "Relu"]


def test_the_graph_is_cut_at_its_input(tf, slimtune, frozen, tmp_path):
    path = tmp_path / "optimized.pb"
    code, _, err = run(
        *(slimtune, f"--input={frozen}", f"--output={path}"),
        *("--input_names=pooled", "--output_names=logits", "--placeholder_type_enum=1"),
    )
    assert code == 0, err
    cut = read_graph(path).nodes["pooled"]
    assert cut.op == "Placeholder"
    assert [size.size for size in cut.attr["shape"].shape.dim] == [-1, 4]
    assert not any(name.startswith("body/") for name in read_graph(path).nodes)


def test_a_text_graph_with_variables_is_stripped_as_it_is(tf, slimtune, saved, tmp_path):
    path = tmp_path / "optimized.pbtxt"
    code, _, err = run(
        *(slimtune, f"--input={saved.text}", f"--output={path}", "--frozen_graph=False"),
        *("--input_names=pictures", "--output_names=logits,save/restore_all"),
    )
    assert code == 0, err
    assert "7 variables in the graph: it is stripped only" in err
    graph = read_graph(path)
    assert graph.nodes["body/weights"].op == "VariableV2"
    assert "save/restore_all" in graph.nodes and "probabilities" not in graph.nodes
    assert path.read_text().startswith("node {")


def test_placeholders_become_constants(tf, slimtune, tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        scale = v1.placeholder(tf.float32, [], name="scale")
        tf.identity(x * tf.constant(3.0) * scale, name="y")
        source, path = tmp_path / "graph.pb", tmp_path / "o.pb"
        source.write_bytes(graph.as_graph_def().SerializeToString())
    code, _, err = run(
        *(slimtune, f"--input={source}", f"--output={path}", "--input_names=x"),
        *("--output_names=y", "--placeholder_to_const_names=scale=2.0", "--toco_compatible"),
    )
    assert code == 0, err
    assert "scale" not in {n.name for n in read_graph(path).graph_def.node if n.op == "Placeholder"}
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(v1.GraphDef.FromString(path.read_bytes()), name="")
        assert session.run("y:0", {"x:0": [[1.0, 2.0]]}).tolist() == [[6.0, 12.0]]


@pytest.mark.parametrize(
    ("types", "said"),
    [("1,4", "names other dtypes than there are inputs"), ("float", "holds no numbers of dtypes")],
)
def test_types_that_do_not_fit_are_wrong_usage(slimtune, frozen, tmp_path, types, said):
    code, _, err = run(
        *(slimtune, f"--input={frozen}", f"--output={tmp_path / 'o.pb'}"),
        *("--input_names=pictures", "--output_names=logits", f"--placeholder_type_enum={types}"),
    )
    assert code == 2
    assert said in err and f"Received: {types}\n" in err
