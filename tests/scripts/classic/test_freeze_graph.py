"""freeze_graph beside TensorFlow's own tool: same nodes, same bits in the answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from exporters.graph import read_graph

pytestmark = pytest.mark.tensorflow


def old_tool(tf, path, **flags):
    """TensorFlow's own freeze_graph."""
    from tensorflow.python.tools import freeze_graph

    given = {
        "input_graph": "",
        "input_saver": "",
        "input_binary": False,
        "input_checkpoint": None,
        "output_node_names": "probabilities",
        "restore_op_name": None,
        "filename_tensor_name": None,
        "output_graph": str(path),
        "clear_devices": True,
        "initializer_nodes": "",
        **{name: str(v) if isinstance(v, Path) else v for name, v in flags.items()},
    }
    with tf.Graph().as_default():
        freeze_graph.freeze_graph(**given)
    return path


def run(slimtune, tmp_path, **flags):
    given = {"output_graph": tmp_path / "ours.pb", "output_node_names": "probabilities", **flags}
    code, out, err = slimtune(
        "classic", "freeze_graph", *(f"--{name}={value}" for name, value in given.items())
    )
    assert code == 0, err
    return given["output_graph"], out, err


def assert_same(tf, answers, ours, theirs):
    kinds = [
        {node.name: node.op for node in read_graph(path).graph_def.node} for path in (ours, theirs)
    ]
    assert kinds[0] == kinds[1]
    assert answers(tf, ours).tobytes() == answers(tf, theirs).tobytes()


@pytest.mark.parametrize("graph", ["text", "binary"])
def test_graph_and_checkpoint_become_what_tensorflow_makes_of_them(
    tf, slimtune, saved, answers, tmp_path, graph
):
    is_binary = graph == "binary"
    flags = {"input_graph": getattr(saved, graph), "input_checkpoint": saved.prefix}
    ours, out, err = run(slimtune, tmp_path, **flags, input_binary=is_binary)
    assert_same(tf, answers, ours, old_tool(tf, tmp_path / "a.pb", **flags, input_binary=is_binary))
    nodes = len(read_graph(ours).graph_def.node)
    assert out == f"Converted 7 variables to const ops.\n{nodes} ops in the final graph.\n"
    assert err.splitlines()[-2:] == [
        "The same with slimtune:",
        f"  slimtune convert {saved.prefix} {ours} --graph {flags['input_graph']} --outputs"
        " probabilities --keep-training --overwrite",
    ]


def test_the_command_that_is_named_at_the_end_writes_the_same_bytes(slimtune, saved, tmp_path):
    ours, _, err = run(slimtune, tmp_path, input_graph=saved.text, input_checkpoint=saved.prefix)
    first = ours.read_bytes()
    words = err.splitlines()[-1].split()[1:]
    code, _, err = slimtune(*words)
    assert code == 0, err
    assert ours.read_bytes() == first


def test_a_v1_checkpoint(tf, slimtune, saved, answers, tmp_path):
    flags = {"input_graph": saved.text, "input_checkpoint": saved.v1}
    ours, _, _ = run(slimtune, tmp_path, **flags, checkpoint_version=1)
    theirs = old_tool(tf, tmp_path / "a.pb", **flags, checkpoint_version=1)
    assert_same(tf, answers, ours, theirs)


def test_a_meta_graph(tf, slimtune, saved, answers, tmp_path):
    flags = {"input_meta_graph": f"{saved.prefix}.meta", "input_checkpoint": saved.prefix}
    ours, _, err = run(slimtune, tmp_path, **flags)
    theirs = old_tool(tf, tmp_path / "a.pb", **flags, input_binary=True)
    assert_same(tf, answers, ours, theirs)
    assert f"slimtune convert {saved.prefix} {ours} --graph {saved.prefix}.meta" in err


def test_a_saved_model_by_its_tags(tf, slimtune, build_net, answers, tmp_path):
    v1 = tf.compat.v1
    directory = tmp_path / "saved_model"
    with tf.Graph().as_default(), v1.Session() as session:
        build_net(tf)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(directory))
        builder.add_meta_graph_and_variables(session, ["serve", "tpu"])
        builder.add_meta_graph(["train"])
        builder.save()
    flags = {"input_saved_model_dir": directory, "saved_model_tags": "serve,tpu"}
    ours, _, _ = run(slimtune, tmp_path, **flags)
    assert_same(tf, answers, ours, old_tool(tf, tmp_path / "a.pb", **flags))
    code, _, err = slimtune(
        *("classic", "freeze_graph", f"--input_saved_model_dir={directory}"),
        *(f"--output_graph={ours}", "--output_node_names=probabilities"),
    )
    assert code == 1
    assert "Expected: serve\nReceived: 2 graphs with tags: serve, tpu; train\n" in err


def test_resource_variables_and_a_step_are_frozen_where_tensorflow_fails(
    tf, slimtune, build_net, saved, answers, tmp_path
):
    v1 = tf.compat.v1
    prefix = tmp_path / "model.ckpt"
    with tf.Graph().as_default() as graph, v1.Session() as session:
        build_net(tf, resource=True)
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(prefix))
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
    flags = {"input_graph": tmp_path / "graph.pbtxt", "input_checkpoint": prefix}
    with pytest.raises(IndexError):
        old_tool(tf, tmp_path / "a.pb", **flags)
    ours, _, _ = run(slimtune, tmp_path, **flags)
    expected = old_tool(
        tf, tmp_path / "b.pb", input_graph=saved.text, input_checkpoint=saved.prefix
    )
    assert answers(tf, ours).tobytes() == answers(tf, expected).tobytes()


def test_variables_in_parts_are_frozen_where_tensorflow_refuses(tf, slimtune, tmp_path):
    v1 = tf.compat.v1
    weights = np.arange(12, dtype=np.float32).reshape(6, 2)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 6], name="x")
        parts = v1.get_variable(
            "w",
            initializer=tf.constant(weights),
            partitioner=v1.fixed_size_partitioner(3),
            use_resource=False,
        )
        tf.matmul(x, tf.convert_to_tensor(parts), name="y")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), write_meta_graph=False)
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
    flags = {
        "input_graph": tmp_path / "graph.pbtxt",
        "input_checkpoint": tmp_path / "model.ckpt",
        "output_node_names": "y",
    }
    with pytest.raises(ValueError, match="partition variables"):
        old_tool(tf, tmp_path / "a.pb", **flags)
    ours, _, _ = run(slimtune, tmp_path, **flags)
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(v1.GraphDef.FromString(ours.read_bytes()), name="")
        assert session.run("y:0", {"x:0": np.eye(6)}).tolist() == weights.tolist()


@pytest.mark.parametrize(
    ("flag", "theirs", "names"),
    [
        ("variable_names_whitelist", "variable_names_whitelist", "body/weights, head/biases"),
        ("variable_names_denylist", "variable_names_denylist", "head/weights,head/biases"),
        ("variable_names_blacklist", "variable_names_denylist", "body/gamma"),
    ],
)
def test_lists_of_variables_leave_the_others_as_they_are(
    tf, slimtune, saved, tmp_path, flag, theirs, names
):
    flags = {"input_graph": saved.text, "input_checkpoint": saved.prefix}
    ours, _, err = run(slimtune, tmp_path, **flags, **{flag: names})
    expected = old_tool(tf, tmp_path / "a.pb", **flags, **{theirs: names})
    found = [
        {node.name: node.op for node in read_graph(path).graph_def.node}
        for path in (ours, expected)
    ]
    assert found[0] == found[1]
    assert "VariableV2" in found[0].values() and "Const" in found[0].values()
    assert "The same with slimtune" not in err
    assert "left as before; such a file is not proved." in err
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.import_graph_def(v1.GraphDef.FromString(ours.read_bytes()), name="")
        if flag == "variable_names_blacklist":
            value = session.run("body/weights:0")
            assert (
                value.tobytes()
                == tf.train.load_variable(str(saved.prefix), "body/weights").tobytes()
            )


def test_a_list_with_a_name_that_is_no_variable_is_refused(slimtune, saved, tmp_path):
    code, _, err = slimtune(
        *("classic", "freeze_graph", f"--input_graph={saved.text}", "--output_node_names=logits"),
        *(f"--input_checkpoint={saved.prefix}", f"--output_graph={tmp_path / 'o.pb'}"),
        "--variable_names_denylist=head/weight",
    )
    assert code == 1
    assert "has no node 'head/weight', which --variable_names_denylist names." in err
    assert err.endswith("Next: --variable_names_denylist=head/weights\n")
    assert not (tmp_path / "o.pb").exists()


def test_initializer_nodes_run_before_the_variables_are_read(tf, slimtune, saved, tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(v1.GraphDef.FromString(saved.binary.read_bytes()), name="")
        scale = v1.get_variable("scale", initializer=np.float32(3), use_resource=False)
        biases = graph.get_tensor_by_name("head/biases:0")
        with tf.control_dependencies([scale.initializer]):
            v1.assign(biases, [0.5, 1.5, 2.5], name="other_biases")
        tf.multiply(graph.get_tensor_by_name("logits:0"), scale, name="scaled")
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
    flags = {
        "input_graph": tmp_path / "graph.pbtxt",
        "input_checkpoint": saved.prefix,
        "output_node_names": "scaled",
        "initializer_nodes": "scale/Assign, other_biases",
    }
    ours, _, _ = run(slimtune, tmp_path, **flags)
    theirs = old_tool(tf, tmp_path / "a.pb", **flags)
    values = {}
    for path in (ours, theirs):
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            tf.import_graph_def(v1.GraphDef.FromString(path.read_bytes()), name="")
            pictures = np.ones((2, 6, 6, 1), np.float32)
            values[path] = session.run(["scaled:0", "head/biases:0"], {"pictures:0": pictures})
    assert values[ours][0].tobytes() == values[theirs][0].tobytes()
    assert values[ours][1].tolist() == [0.5, 1.5, 2.5]


def test_initializer_nodes_are_not_run_where_a_function_writes_files(tf, slimtune, saved, tmp_path):
    v1 = tf.compat.v1
    written = tmp_path / "written"

    @tf.function
    def write():
        tf.io.write_file(str(written), "gotcha")
        return tf.constant(2.0)

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(v1.GraphDef.FromString(saved.binary.read_bytes()), name="")
        tf.identity(write(), name="started")
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
    code, _, err = slimtune(
        "classic",
        "freeze_graph",
        f"--input_graph={tmp_path / 'graph.pbtxt'}",
        f"--input_checkpoint={saved.prefix}",
        "--output_node_names=logits",
        "--initializer_nodes=started",
        f"--output_graph={tmp_path / 'o.pb'}",
    )
    assert code == 1
    assert "(WriteFile): writes files" in err
    assert not written.exists()


def test_a_saver_says_under_which_names_variables_were_saved(tf, slimtune, tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        weights = v1.get_variable("w", initializer=np.eye(2, dtype=np.float32), use_resource=False)
        tf.matmul(x, weights, name="y")
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver({"w/ExponentialMovingAverage": weights})
        saver.save(session, str(tmp_path / "model.ckpt"), write_meta_graph=False)
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
        (tmp_path / "saver.pb").write_bytes(saver.saver_def.SerializeToString())
        (tmp_path / "saver.pbtxt").write_text(str(saver.saver_def))
    flags = {
        "input_graph": tmp_path / "graph.pbtxt",
        "input_checkpoint": tmp_path / "model.ckpt",
        "output_node_names": "y",
    }
    theirs = old_tool(tf, tmp_path / "a.pb", **flags, input_saver=tmp_path / "saver.pbtxt")
    for name in ("saver.pb", "saver.pbtxt"):
        ours, _, _ = run(slimtune, tmp_path, **flags, input_saver=tmp_path / name)
        for path in (ours, theirs):
            node = read_graph(path).nodes["w"]
            assert node.op == "Const"
            assert np.frombuffer(node.attr["value"].tensor.tensor_content, np.float32).tolist() == [
                *(1.0, 0.0, 0.0, 1.0)
            ]
    code, _, err = slimtune(
        *(
            "classic",
            "freeze_graph",
            "--output_node_names=y",
            f"--output_graph={tmp_path / 'o.pb'}",
        ),
        *(f"--{name}={value}" for name, value in flags.items() if name.startswith("input")),
        f"--input_saver={tmp_path / 'a.pb'}",
    )
    assert code == 1
    assert "holds no SaverDef." in err


def test_training_nodes_stay_as_tensorflow_leaves_them(tf, slimtune, tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        keep = v1.placeholder_with_default(np.float32(1), [], name="keep_prob")
        weights = v1.get_variable("w", initializer=np.eye(2, dtype=np.float32), use_resource=False)
        v1.nn.dropout(tf.matmul(x, weights), keep_prob=keep, name="y")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        (tmp_path / "graph.pbtxt").write_text(str(graph.as_graph_def()))
        output = graph.get_operations()
        name = next(op.name for op in reversed(output) if op.name.startswith("y/"))
    flags = {
        "input_graph": tmp_path / "graph.pbtxt",
        "input_checkpoint": tmp_path / "model.ckpt",
        "output_node_names": name,
    }
    ours, _, err = run(slimtune, tmp_path, **flags)
    theirs = old_tool(tf, tmp_path / "a.pb", **flags)
    names = [{n.name: n.op for n in read_graph(path).graph_def.node} for path in (ours, theirs)]
    assert names[0] == names[1]
    assert names[0]["keep_prob"] == "PlaceholderWithDefault"
    assert "of training were kept" in err


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"clear_devices": "false"}, 1, "--clear_devices: a frozen graph that names devices"),
        ({"output_node_names": "probability"}, 1, "Next: --output_node_names=probabilities"),
        ({"input_graph": ""}, 2, "freeze_graph takes one graph."),
        ({"input_checkpoint": ""}, 2, "--input_graph holds no values of variables."),
        ({"input_meta_graph": "/dev/null"}, 2, "Received: --input_graph="),
    ],
)
def test_what_cannot_be_is_refused_with_the_next_step(
    slimtune, saved, tmp_path, changes, code, said
):
    flags = {
        "input_graph": saved.text,
        "input_checkpoint": saved.prefix,
        "output_graph": tmp_path / "o.pb",
        "output_node_names": "probabilities",
        **changes,
    }
    found, _, err = slimtune(
        "classic", "freeze_graph", *(f"--{name}={value}" for name, value in flags.items())
    )
    assert found == code
    assert said in err and "Traceback" not in err
    assert not (tmp_path / "o.pb").exists()


def test_a_checkpoint_is_not_written_over(slimtune, saved):
    before = saved.v1.read_bytes()
    code, _, err = slimtune(
        *("classic", "freeze_graph", f"--input_graph={saved.text}", "--output_node_names=logits"),
        *(f"--input_checkpoint={saved.v1}", f"--output_graph={saved.v1}"),
    )
    assert code == 2
    assert "would be replaced, which is the source" in err
    assert saved.v1.read_bytes() == before


def test_json_has_the_variables_and_the_proof(slimtune, saved, tmp_path):
    shutil.copy(saved.text, tmp_path / "graph.pbtxt")
    code, out, _ = slimtune(
        *("classic", "freeze_graph", f"--input_graph={saved.text}", "--output_node_names=logits"),
        *(f"--input_checkpoint={saved.prefix}", f"--output_graph={tmp_path / 'o.pb'}", "--json"),
    )
    found = json.loads(out)
    assert code == 0
    assert sorted(found["variables"]) == [
        *("body/beta", "body/gamma", "body/mean", "body/variance", "body/weights"),
        *("head/biases", "head/weights"),
    ]
    assert (found["verification"]["mode"], found["verification"]["passed"]) == ("structure", True)
