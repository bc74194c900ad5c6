import gzip

import numpy as np
import pytest
from google.protobuf import text_format

from checkpoints.errors import GraphError, NotFoundError
from checkpoints.messages import GraphDef, MetaGraphDef, SavedModel
from exporters.graph import Graph, as_graph, read_graph
from exporters.names import TensorName


def meta_graph(builder) -> MetaGraphDef:
    meta = MetaGraphDef()
    meta.graph_def.CopyFrom(builder.graph_def)
    meta.meta_info_def.tensorflow_version = "0.12.head"
    meta.meta_info_def.tags.append("serve")
    op = meta.meta_info_def.stripped_op_list.op.add(name="Softmax")
    op.input_arg.add(name="logits", type_attr="T")
    op.output_arg.add(name="softmax", type_attr="T")
    return meta


def forms(builder) -> dict[str, tuple[bytes, str]]:
    """Every form a graph comes in: name -> (bytes, kind)."""
    meta = meta_graph(builder)
    saved = SavedModel(saved_model_schema_version=1)
    saved.meta_graphs.append(meta)
    text = text_format.MessageToString
    bare = MetaGraphDef(graph_def=builder.graph_def)
    return {
        "binary GraphDef": (builder.graph_def.SerializeToString(), "graph-def"),
        "text GraphDef": (text(builder.graph_def).encode(), "graph-def"),
        "text with a comment": (b"# made by hand\n" + text(meta).encode(), "meta-graph"),
        "text with a mark": (b"\xef\xbb\xbf" + text(builder.graph_def).encode(), "graph-def"),
        "UTF-16 text": (text(builder.graph_def).encode("utf-16"), "graph-def"),
        "binary MetaGraphDef": (meta.SerializeToString(), "meta-graph"),
        "MetaGraphDef without information": (bare.SerializeToString(), "meta-graph"),
        "text MetaGraphDef": (text(meta).encode(), "meta-graph"),
        "binary SavedModel": (saved.SerializeToString(), "saved-model"),
        "text SavedModel": (text(saved).encode(), "saved-model"),
    }


@pytest.mark.parametrize("ending", [".pb", ".pbtxt", ".meta", ""])
def test_the_content_tells_what_a_file_is(dense_net, tmp_path, ending):
    for name, (data, kind) in forms(dense_net).items():
        path = tmp_path / f"g{ending}"
        path.write_bytes(data)
        graph = read_graph(path)
        assert (graph.kind, graph.path) == (kind, path), name
        assert list(graph.nodes) == [node.name for node in dense_net.graph_def.node], name
        assert graph.graph_def == dense_net.graph_def, name
        assert (graph.meta_graph is None) == (kind == "graph-def"), name


def test_a_graph_of_one_node_is_no_meta_graph(tmp_path, builder):
    builder.add("Placeholder", "x", dtype=np.dtype("float32"))
    (tmp_path / "g").write_bytes(builder.graph_def.SerializeToString())
    assert read_graph(tmp_path / "g").kind == "graph-def"


def test_a_saved_model_is_named_by_its_directory(dense_net, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(forms(dense_net)["binary SavedModel"][0])
    graph = read_graph(tmp_path)
    assert graph.path == tmp_path / "saved_model.pb"
    assert "probs" in graph.nodes


def test_of_several_graphs_the_served_one_is_taken(dense_net, builder, tmp_path):
    builder.add("NoOp", "training")
    saved = SavedModel(saved_model_schema_version=1)
    saved.meta_graphs.add(graph_def=builder.graph_def).meta_info_def.tags.append("train")
    saved.meta_graphs.append(meta_graph(dense_net))
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    assert "probs" in read_graph(tmp_path).nodes
    assert list(read_graph(tmp_path, ["train"]).nodes) == [n.name for n in builder.graph_def.node]
    assert "probs" in read_graph(tmp_path, ["serve"]).nodes
    with pytest.raises(GraphError, match="no graph with the tags asked for") as caught:
        read_graph(tmp_path, ["serve", "train"])
    assert caught.value.expected == "serve, train"

    del saved.meta_graphs[1].meta_info_def.tags[:]
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    with pytest.raises(GraphError, match="no graph to serve") as caught:
        read_graph(tmp_path)
    assert caught.value.received == "2 graphs with tags: train; none"


def test_what_is_no_graph_is_named(tmp_path, dense_net):
    binary = dense_net.graph_def.SerializeToString()
    cases = {
        "": ("is empty", "0 bytes"),
        "zip": ("is not a graph", "a zip archive"),
        "gzip": ("is not a graph", "a gzip archive"),
        "text": ("is not a graph", "a text file"),
        "hdf5": ("is not a graph", "an HDF5 file, as Keras writes them"),
        "cut": ("cannot be read as a GraphDef", "bytes that end too early or are damaged"),
        "bad text": ("cannot be read as a GraphDef", "line and column 1:8"),
    }
    contents = {
        "": b"",
        "zip": b"PK\x03\x04" + bytes(100),
        "gzip": gzip.compress(b"graph"),
        "text": b"hello\n",
        "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(100),
        "cut": binary[:-3],
        "bad text": b'node { nome: "x" }',
    }
    for name, (message, received) in cases.items():
        path = tmp_path / "g.pb"
        path.write_bytes(contents[name])
        with pytest.raises(GraphError, match=message) as caught:
            read_graph(path)
        assert received in str(caught.value.received), name


def test_a_checkpoint_is_no_graph(shared):
    with pytest.raises(GraphError, match="is not a graph"):
        read_graph(shared / "data/models/mnist_mlp/model.ckpt-1999.index")


def test_a_missing_file_and_a_bare_directory(tmp_path):
    with pytest.raises(NotFoundError, match="is not there") as absent:
        read_graph(tmp_path / "none.pb")
    assert absent.value.received == str(tmp_path / "none.pb")
    with pytest.raises(GraphError, match="a directory without a graph") as bare:
        read_graph(tmp_path)
    assert bare.value.next_step == f"See what is there: ls {tmp_path}"
    (tmp_path / "inference_graph.pb").touch()
    with pytest.raises(GraphError, match="a directory without a graph") as run:
        read_graph(tmp_path)
    assert run.value.next_step == f"Name a file in it: {tmp_path}/inference_graph.pb"


def test_ops_that_nobody_knows_are_no_obstacle(builder, tmp_path):
    builder.add("ContribFancyOp", "fancy", strange=b"\xff\xfe")
    (tmp_path / "g.pb").write_bytes(builder.graph_def.SerializeToString())
    assert read_graph(tmp_path / "g.pb").nodes["fancy"].op == "ContribFancyOp"


def test_a_graph_nested_beyond_reason_is_refused(tmp_path):
    value = GraphDef()
    attribute = value.node.add(name="x", op="Y").attr["f"]
    for _ in range(200):
        attribute = attribute.func.attr["f"]
    attribute.i = 1
    (tmp_path / "g.pb").write_bytes(value.SerializeToString())
    with pytest.raises(GraphError, match="cannot be read as a GraphDef"):
        read_graph(tmp_path / "g.pb")
    (tmp_path / "g.pbtxt").write_text("node { attr { value { func { attr { value { " * 5000)
    with pytest.raises(GraphError, match="cannot be read as a GraphDef"):
        read_graph(tmp_path / "g.pbtxt")


def test_two_nodes_of_one_name_are_refused(builder):
    builder.add("NoOp", "twice")
    builder.add("NoOp", "twice")
    with pytest.raises(GraphError, match="several nodes of one name:\n  twice"):
        _ = builder.graph.nodes


def test_a_node_without_its_input_is_named(builder):
    builder.add("Identity", "x", "gone:1")
    with pytest.raises(GraphError, match="no node 'gone', which these take as an input:\n  x"):
        builder.graph.ancestors(["x"])


def test_consumers_and_ancestors(dense_net):
    dense_net.add("NoOp", "after", "^probs")
    graph = dense_net.graph
    assert graph.consumers["logits"] == ["probs"]
    assert "probs" not in graph.consumers
    assert graph.ancestors(["matmul"]) == {"matmul", "x", "fc/weights", "fc/weights/read"}
    assert graph.ancestors(["after"]) == {"after"}
    assert "probs" in graph.ancestors(["after"], control=True)


def test_dtypes_and_shapes_come_from_the_file(dense_net, tmp_path):
    (tmp_path / "g.meta").write_bytes(meta_graph(dense_net).SerializeToString())
    graph = read_graph(tmp_path / "g.meta")
    assert graph.dtype(TensorName("probs")) == 1
    assert graph.dtype(TensorName("x")) == 1
    assert graph.shape(TensorName("x")) == (None, 4)
    assert graph.shape(TensorName("probs")) is None
    assert "_output_shapes" not in graph.nodes["probs"].attr


def test_dtypes_of_several_outputs(builder, tmp_path):
    meta = MetaGraphDef(graph_def=builder.graph_def)
    ops = meta.meta_info_def.stripped_op_list.op
    split = ops.add(name="SplitLike")
    split.output_arg.add(name="parts", type_attr="T", number_attr="count")
    split.output_arg.add(name="total", type=9)
    ops.add(name="Many").output_arg.add(name="all", type_list_attr="kinds")
    shape = ops.add(name="Shape")
    shape.output_arg.add(name="output", type_attr="out_type")
    shape.attr.add(name="out_type").default_value.type = 3
    meta.graph_def.node.add(name="shape", op="Shape")
    node = meta.graph_def.node.add(name="split", op="SplitLike")
    node.attr["T"].type = 1
    node.attr["count"].i = 2
    many = meta.graph_def.node.add(name="many", op="Many")
    many.attr["kinds"].list.type.extend([3, 7])
    undefined = meta.graph_def.node.add(name="next", op="IteratorGetNext")
    undefined.attr["output_types"].list.type.extend([1, 9])
    (tmp_path / "g.meta").write_bytes(meta.SerializeToString())
    graph = read_graph(tmp_path / "g.meta")

    def found(name, count):
        return [graph.dtype(TensorName(name, index)) for index in range(count)]

    assert found("split", 4) == [1, 1, 9, None]
    assert found("many", 3) == [3, 7, None]
    assert found("shape", 1) == [3]
    assert found("next", 3) == [1, 9, None]


def test_as_graph_takes_what_a_caller_has(dense_net, tmp_path):
    graph = dense_net.graph
    assert as_graph(graph) is graph
    assert as_graph(dense_net.graph_def).nodes.keys() == graph.nodes.keys()
    (tmp_path / "g.pb").write_bytes(dense_net.graph_def.SerializeToString())
    assert as_graph(str(tmp_path / "g.pb")).graph_def == dense_net.graph_def
    assert Graph(dense_net.graph_def).label == "The graph"


@pytest.mark.tensorflow
def test_as_graph_takes_tensorflows_own_messages_and_graphs(dense_net):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    own = tf.compat.v1.GraphDef.FromString(dense_net.graph_def.SerializeToString())
    assert as_graph(own).graph_def == dense_net.graph_def
    with tf.Graph().as_default() as live:
        tf.compat.v1.placeholder(tf.float32, [None, 3], name="pictures")
    assert as_graph(live).shape(TensorName("pictures")) == (None, 3)
