from pathlib import Path

import numpy as np
import pytest

from checkpoints.errors import BrokenFileError
from exporters.runtimes.onnx_external import external_files, refuse_files_elsewhere

onnx = pytest.importorskip("onnx")


def tensor(location: str):
    """Two floats that lie in a file."""
    made = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[2])
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("length", "8")):
        made.external_data.add(key=key, value=value)
    return made


def model(*locations: str, path: Path) -> Path:
    """y = x + w for each location's w, written to `path`."""
    helper = onnx.helper
    weights = [tensor(location) for location in locations]
    names = ["x"]
    nodes = []
    for number, weight in enumerate(weights):
        weight.name = f"w{number}"
        nodes.append(helper.make_node("Add", [names[-1], weight.name], [f"y{number}"]))
        names.append(f"y{number}")
    ends = [helper.make_tensor_value_info(name, 1, [2]) for name in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    return path


def test_files_are_found_wherever_a_tensor_may_stand(tmp_path):
    helper = onnx.helper
    inner = helper.make_graph([], "inner", [], [], [tensor("branch")])
    sparse = onnx.SparseTensorProto(values=tensor("values"), indices=tensor("indices"))
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner)
    node.attribute.append(onnx.AttributeProto(name="t", t=tensor("attribute")))
    node.attribute.append(onnx.AttributeProto(name="ts", tensors=[tensor("attributes")]))
    graph = helper.make_graph([node], "g", [], [], [tensor("initializer")])
    graph.sparse_initializer.append(sparse)
    made = helper.make_model(graph)
    constant = helper.make_node("Constant", [], ["k"], value=tensor("function"))
    made.functions.add(name="f").node.append(constant)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    assert sorted(external_files(tmp_path / "m.onnx")) == [
        "attribute", "attributes", "branch", "function", "indices", "initializer", "values",
    ]  # fmt: skip


def test_names_that_lead_elsewhere_are_refused(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "secret").write_bytes(bytes(8))
    (tmp_path / "models/link").symlink_to("../secret")
    names = ("beside", "../secret", "/etc/passwd", "link", "a/../../secret", "nul\0")
    path = model(*names, path=tmp_path / "models/m.onnx")
    with pytest.raises(BrokenFileError, match=r"m\.onnx takes tensors from files") as caught:
        refuse_files_elsewhere(path)
    told = caught.value.message.splitlines()[1:]
    assert [line.strip() for line in told] == [repr(name) for name in names[1:]]


def test_no_such_model_is_run_and_one_with_files_beside_it_is(tmp_path):
    pytest.importorskip("onnxruntime")
    from exporters.runtimes.onnx_runner import OnnxRunner

    np.array([1, 2], np.float32).tofile(tmp_path / "secret")
    (tmp_path / "models").mkdir()
    with pytest.raises(BrokenFileError, match=r"'\.\./secret'"):
        OnnxRunner(model("../secret", path=tmp_path / "models/m.onnx"))
    with OnnxRunner(model("secret", path=tmp_path / "m.onnx")) as runner:
        (found,) = runner.run(np.array([1, 1], np.float32))
    assert found.tolist() == [2.0, 3.0]
