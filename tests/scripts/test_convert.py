import dataclasses
import json

import numpy as np
import pytest

import checkpoints
from checkpoints.errors import listed
from checkpoints.messages import GraphDef, MetaGraphDef
from exporters.graph import read_graph
from exporters.metadata import Metadata, metadata_node, read_metadata


@pytest.fixture
def saved(tmp_path):
    """Placeholder x [?, 4] -> weights [4, 3] -> softmax `probs`, as a checkpoint with a .meta."""
    graph_def = GraphDef()
    graph_def.versions.producer = 27
    x = graph_def.node.add(name="x", op="Placeholder")
    x.attr["dtype"].type = 1
    for size in (-1, 4):
        x.attr["shape"].shape.dim.add(size=size)
    weights = graph_def.node.add(name="fc/weights", op="VariableV2")
    weights.attr["dtype"].type = 1
    for size in (4, 3):
        weights.attr["shape"].shape.dim.add(size=size)
    for name, op, inputs in (
        ("fc/weights/read", "Identity", ["fc/weights"]),
        ("logits", "MatMul", ["x", "fc/weights/read"]),
        ("probs", "Softmax", ["logits"]),
    ):
        graph_def.node.add(name=name, op=op, input=inputs).attr["T"].type = 1
    prefix = tmp_path / "my model.ckpt"
    checkpoints.write(prefix, {"fc/weights": np.arange(12, dtype=np.float32).reshape(4, 3)})
    meta = MetaGraphDef(graph_def=graph_def)
    prefix.with_name("my model.ckpt.meta").write_bytes(meta.SerializeToString())
    return prefix


def test_json(slimtune, saved, tmp_path):
    code, out, err = slimtune("convert", saved, tmp_path / "m.pb", "--json")
    value = json.loads(out)
    assert code == 0
    assert value == {
        "path": str(tmp_path / "m.pb"),
        "form": "pb",
        "graph": f"{saved}.meta",
        "checkpoint": str(saved),
        "inputs": [{"name": "x:0", "dtype": "float32", "shape": [None, 4]}],
        "outputs": [{"name": "probs:0", "dtype": "float32", "shape": None}],
        "nodes": 5,
        "parameters": 12,
        "bytes": (tmp_path / "m.pb").stat().st_size,
        "notes": [
            "Output probs:0, guessed: nothing reads it, and it depends on input and variables."
        ],
        "verification": {
            "mode": "structure",
            "passed": True,
            "max_abs": 0.0,
            "max_rel": 0.0,
            "top1_agreement": 1.0,
        },
        "metadata": None,
    }
    assert err.splitlines() == value["notes"]


def test_text(slimtune, saved, tmp_path):
    target = tmp_path / "the model.pb"
    code, out, _ = slimtune("convert", saved, target, "--outputs", "^probs, logits:0")
    assert code == 0
    assert out.splitlines() == [
        f"{target}: 5 nodes, 12 parameters, 0.0 MB",
        "Input         x:0 float32 [?, 4]",
        "Output        probs:0 float32",
        "Output        logits:0 float32",
        "Verification  proved node by node and byte by byte",
        f"Next: slimtune inspect '{target}'",
    ]


def test_a_model_with_preprocessing_can_be_used_at_once(slimtune, saved, tmp_path):
    graph = read_graph(f"{saved}.meta").graph_def
    metadata = Metadata(preprocessing={"kind": "inception"}, outputs={"logits": "logits:0"})
    graph.node.append(metadata_node(metadata))
    (tmp_path / "g.pb").write_bytes(graph.SerializeToString())
    code, out, _ = slimtune("convert", saved, tmp_path / "m.pb", "--graph", tmp_path / "g.pb")
    assert code == 0
    assert out.splitlines()[-1] == f"Next: slimtune predict {tmp_path / 'm.pb'} picture.jpg"
    code, out, _ = slimtune("convert", tmp_path / "m.pb", tmp_path / "t.ckpt")
    assert (code, out.splitlines()[-2:]) == (
        0,
        [
            f"Next: slimtune train DATA --run RUN --net {tmp_path / 't.ckpt.meta'}",
            f"  or  slimtune inspect {tmp_path / 't.ckpt'}",
        ],
    )
    code, out, _ = slimtune("convert", tmp_path / "m.pb", tmp_path / "t.npz")
    assert (code, out.splitlines()[-1]) == (0, f"Next: slimtune inspect {tmp_path / 't.npz'}")


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "message"),
    [
        (["--outputs", "prob"], 1, "GraphError", "no node 'prob'"),
        (["--outputs", "Probs"], 1, "GraphError", "no node 'Probs'"),
        (["--classes", "5"], 1, "GraphError", "does not have 5 classes"),
        (["--to", "exe"], 2, "UsageError", "There is no form 'exe'"),
        (["--inputs", "x=axb"], 2, "UsageError", "gives no shape"),
        (["--image-size", "99"], 2, "UsageError", "--image-size says how a net is built"),
        (["--verify", "twice"], 2, "UsageError", "'twice' is not one of"),
        (["--labels", "none.txt"], 1, "NotFoundError", "none.txt is not there"),
        (["--net", "inception_v3", "--graph", "g"], 2, "UsageError", "both give the graph"),
    ],
)
def test_refusals(slimtune, saved, tmp_path, arguments, code, kind, message):
    got, out, err = slimtune("convert", saved, tmp_path / "m.pb", *arguments, "--json")
    error = json.loads(out)["error"]
    assert (got, error["type"]) == (code, kind)
    assert message in error["message"]
    assert message in err
    assert not (tmp_path / "m.pb").exists()


def test_an_existing_file_needs_overwrite(slimtune, saved, tmp_path):
    (tmp_path / "m.pb").write_bytes(b"old")
    code, _, err = slimtune("convert", saved, tmp_path / "m.pb")
    assert code == 1
    assert "Add --overwrite" in err
    assert slimtune("convert", saved, tmp_path / "m.pb", "--overwrite")[0] == 0


@pytest.mark.parametrize("count", [2, 4])
def test_labels_are_counted(slimtune, saved, tmp_path, count):
    (tmp_path / "labels.txt").write_text("\n".join("abcd"[:count]))
    code, _, err = slimtune(
        "convert", saved, tmp_path / "m.pb", "--labels", tmp_path / "labels.txt"
    )
    assert code == 1
    assert f"Expected: 3 class names, one for each logit\nReceived: {count}" in err


def test_labels_travel(slimtune, saved, tmp_path):
    (tmp_path / "labels.txt").write_text("花\nC++\nC#\n", encoding="utf-8")
    code, out, _ = slimtune(
        "convert", saved, tmp_path / "m.pb", "--labels", tmp_path / "labels.txt", "--json"
    )
    assert code == 0
    assert json.loads(out)["metadata"]["classes"] == ["花", "C++", "C#"]
    assert read_metadata(read_graph(tmp_path / "m.pb")).classes == ("花", "C++", "C#")


@pytest.mark.tensorflow
def test_run_verification_shows_its_figures(slimtune, saved, tmp_path):
    code, out, _ = slimtune("convert", saved, tmp_path / "m.pb", "--verify", "run")
    assert code == 0
    assert "compared on the same inputs: max_abs" in out
    assert "top-1 agreement 100.0%" in out


@pytest.mark.tensorflow
def test_a_registered_net_gives_the_graph(slimtune, tmp_path):
    from finetune.nets import inference_graph

    graph = inference_graph("mobilenet_v1", 4, 64)
    generator = np.random.default_rng(0)
    values = {
        variable.name: generator.uniform(0.5, 1, variable.shape).astype(variable.dtype)
        for variable in graph.variables
    }
    checkpoints.write(tmp_path / "weights.ckpt", values)

    code, _, err = slimtune("convert", tmp_path / "weights.ckpt", tmp_path / "m.pb")
    assert code == 1
    assert "Add --net mobilenet_v1" in err

    flags = ["--net", "mobilenet_v1", "--image-size", "64"]
    code, _, err = slimtune(
        "convert", tmp_path / "weights.ckpt", tmp_path / "m.pb", *flags, "--classes", "5"
    )
    assert code == 1
    assert "does not have 5 classes" in err

    code, out, err = slimtune(
        "convert", tmp_path / "weights.ckpt", tmp_path / "m.pb", *flags, "--json"
    )
    assert code == 0, listed([err])
    value = json.loads(out)
    assert value["metadata"]["net"] == "mobilenet_v1"
    assert value["metadata"]["image_size"] == 64
    assert value["inputs"][0]["shape"] == [None, 64, 64, 3]
    assert value["verification"]["mode"] == "structure"


@pytest.mark.tensorflow
def test_a_net_takes_pictures_as_its_published_weights_want_them(slimtune, tmp_path, monkeypatch):
    """As of ResNet-v2, designed for 224 pixels and VGG's preprocessing."""
    from checkpoints.published import CHECKPOINTS, NETS
    from finetune.nets import inference_graph

    graph = inference_graph("mobilenet_v1_025", 4, 64)
    values = {v.name: np.full(v.shape, 0.5, v.dtype) for v in graph.variables}
    checkpoints.write(tmp_path / "weights.ckpt", values)
    record = dataclasses.replace(NETS["mobilenet_v1_025"], image_size=64, preprocessing="vgg")
    monkeypatch.setitem(NETS, record.name, record)
    weights = CHECKPOINTS["mobilenet_v1_0.25_224"]
    monkeypatch.setitem(CHECKPOINTS, weights.name, dataclasses.replace(weights, image_size=96))
    code, out, err = slimtune(
        *("convert", tmp_path / "weights.ckpt", tmp_path / "m.pb", "--net", record.name, "--json")
    )
    assert code == 0, err
    value = json.loads(out)
    assert value["inputs"][0]["shape"] == [None, 96, 96, 3]
    assert value["metadata"]["preprocessing"]["name"] == "inception"


def test_thawing(slimtune, saved, tmp_path):
    frozen = tmp_path / "m.pb"
    assert slimtune("convert", saved, frozen)[0] == 0
    target = tmp_path / "thawed.ckpt"
    code, out, err = slimtune("convert", frozen, target)
    assert code == 0
    assert out.splitlines() == [
        f"{target}: 5 nodes, 12 parameters, 0.0 MB",
        "Input         x:0 float32 [?, 4]",
        "Output        probs:0 float32",
        "Verification  proved node by node and byte by byte",
        f"Next: slimtune inspect {target}",
    ]
    assert "1 constant became a variable, 1 trainable." in err
    with checkpoints.open(target) as thawed, checkpoints.open(saved) as original:
        assert thawed["fc/weights"].tobytes() == original["fc/weights"].tobytes()


def test_variables_are_kept_on_request(slimtune, saved, tmp_path):
    code, out, _ = slimtune("convert", saved, f"{tmp_path}/model/", "--keep-variables", "--json")
    value = json.loads(out)
    assert (code, value["form"], value["path"]) == (0, "saved-model", str(tmp_path / "model"))
    assert (tmp_path / "model/variables/variables.index").is_file()
    code, _, err = slimtune("convert", saved, tmp_path / "m.onnx", "--keep-variables")
    assert code == 2
    assert "--keep-variables says nothing of the form onnx" in err


@pytest.fixture
def guarded(saved):
    """The same net, its answers chosen by a placeholder `flag`, behind an assertion."""
    path = saved.with_name("my model.ckpt.meta")
    meta = MetaGraphDef.FromString(path.read_bytes())
    flag = meta.graph_def.node.add(name="flag", op="Placeholder")
    flag.attr["dtype"].type = 10
    flag.attr["shape"].shape.SetInParent()
    meta.graph_def.node.add(name="no", op="Switch", input=["probs", "flag"]).attr["T"].type = 1
    meta.graph_def.node.add(name="yes", op="Neg", input=["no:1"]).attr["T"].type = 1
    merge = meta.graph_def.node.add(name="merge", op="Merge", input=["no", "yes"])
    merge.attr["T"].type, merge.attr["N"].i = 1, 2
    meta.graph_def.node.add(name="check", op="Assert", input=["flag"])
    out = meta.graph_def.node.add(name="out", op="Identity", input=["merge", "^check"])
    out.attr["T"].type = 1
    path.write_bytes(meta.SerializeToString())
    return saved


def test_placeholders_are_set_and_checks_dropped(slimtune, guarded, tmp_path):
    options = ("--outputs", "out", "--set", "flag=false,  x1=2", "--drop-checks")
    code, _, err = slimtune("convert", guarded, tmp_path / "m.pb", *options)
    assert (code, "no placeholder 'x1'" in err) == (1, True)
    options = ("--outputs", "out", "--set", "flag=false", "--drop-checks", "--verify", "structure")
    code, out, _ = slimtune("convert", guarded, tmp_path / "m.pb", *options, "--json")
    assert code == 0
    notes = json.loads(out)["notes"]
    assert "flag is false, as requested." in notes
    assert any("Checks were taken out" in note for note in notes)
    assert set(read_graph(tmp_path / "m.pb").nodes) == {
        "x",
        "fc/weights",
        "fc/weights/read",
        "logits",
        "probs",
        "out",
    }


@pytest.mark.parametrize("option", ["--set=flag", "--set=flag=false,flag=true"])
def test_settings_that_say_nothing(slimtune, guarded, tmp_path, option):
    code, _, err = slimtune("convert", guarded, tmp_path / "m.pb", option)
    assert code == 2
    assert "flag" in err


def test_a_setting_that_does_not_fit(slimtune, guarded, tmp_path):
    code, _, err = slimtune(
        "convert", guarded, tmp_path / "m.pb", "--outputs", "out", "--set", "flag=maybe"
    )
    assert code == 2
    assert "flag cannot be maybe" in err
    code, _, err = slimtune("convert", guarded, tmp_path / "c.ckpt", "--set", "flag=true")
    assert code == 2
    assert "--set" in err
