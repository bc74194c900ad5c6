"""A .meta that goes with a converted checkpoint, without TensorFlow: what changes and what does not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.errors import (
    GraphError,
    OutputExistsError,
    UnsupportedError,
    VerificationError,
)
from checkpoints.messages import MetaGraphDef, NodeDef
from checkpoints.selection import Selection
from exporters.constants import constant_value
from exporters.graph import read_graph
from exporters.savers.meta_graph import importable_version
from exporters.savers.meta_proof import prove_meta
from exporters.savers.nodes import read_saver
from exporters.savers.travelling import carried_meta
from exporters.values import header_of

FLOAT = np.dtype("float32")
STRING = np.dtype(object)


def add_saver(builder, *, version="v1", names=("fc/weights", "fc/biases"), scope="save"):
    """The Saver of TensorFlow 0.12 or 1.0, as it stood in a graph; returns its SaverDef's names."""
    add = builder.add
    filename = builder.const(f"{scope}/Const", np.array(b"model", object))
    keys = builder.const(f"{scope}/keys", np.array(names, "S"))
    slices = builder.const(f"{scope}/slices", np.array([b""] * len(names), object))
    op, attribute = ("SaveSlices", "T") if version == "v1" else ("SaveV2", "dtypes")
    save = add(op, f"{scope}/save", filename, keys, slices, *names)
    types = builder.graph_def.node[-1].attr[attribute].list.type
    types.extend([1] * len(names))
    add("Identity", f"{scope}/control_dependency", filename, f"^{save}", T=STRING)
    assigned = []
    for index, name in enumerate(names):
        key = np.array(name.encode(), object)
        part = np.array(b"", object)
        if version == "v2":
            key, part = key.reshape(1), part.reshape(1)
        inputs = (
            filename,
            builder.const(f"{scope}/restore_{index}/key", key),
            builder.const(f"{scope}/restore_{index}/slice", part),
        )
        restore = f"{scope}/restore_{index}"
        if version == "v1":
            add("RestoreSlice", restore, *inputs, dt=FLOAT, preferred_shard=-1)
        else:
            add("RestoreV2", restore, *inputs)
            builder.graph_def.node[-1].attr["dtypes"].list.type.append(1)
        assigned.append(add("Assign", f"{scope}/Assign_{index}", name, restore, T=FLOAT))
    add("NoOp", f"{scope}/restore_all", *(f"^{name}" for name in assigned))
    return f"{scope}/Const:0", f"{scope}/control_dependency:0", f"{scope}/restore_all"


@pytest.fixture
def meta(dense_net):
    """A MetaGraphDef with a Saver, an op nobody knows, collections and signatures."""
    names = add_saver(dense_net)
    dense_net.add("MyOwnOp", "mine", "probs", "^save/restore_all", T=FLOAT)
    message = MetaGraphDef(graph_def=dense_net.graph_def)
    message.meta_info_def.tensorflow_version = "0.12.head"
    message.meta_info_def.tags.append("train")
    message.collection_def["variables"].bytes_list.value.append(b"\x0a\x00anything")
    message.collection_def["train_op"].node_list.value.append("mine")
    message.signature_def["serve"].inputs["x"].name = "x:0"
    definition = message.saver_def
    definition.filename_tensor_name, definition.save_tensor_name, definition.restore_op_name = names
    definition.version = 1
    definition.max_to_keep = 3
    return message


@pytest.fixture
def write(dense_net, tmp_path):
    def write(message, version="v1"):
        prefix = tmp_path / "source" / "model"
        checkpoints.write(prefix, dense_net.values, version=version)
        prefix.with_name("model.meta").write_bytes(message.SerializeToString(deterministic=True))
        return prefix

    return write


def read_meta(prefix) -> MetaGraphDef:
    return MetaGraphDef.FromString(Path(f"{prefix}.meta").read_bytes())


def nodes_of(message) -> dict[str, NodeDef]:
    return {node.name: node for node in message.graph_def.node}


def saver_in(prefix):
    return read_saver(read_graph(Path(f"{prefix}.meta")))


def test_only_what_talks_to_files_changes(meta, write, tmp_path):
    done = exporters.convert(write(meta), tmp_path / "m.ckpt")
    written = read_meta(tmp_path / "m.ckpt")
    before, after = nodes_of(meta), nodes_of(written)
    assert list(before) == list(after)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {
        "save/save",
        "save/restore_0",
        "save/restore_0/key",
        "save/restore_0/slice",
        "save/restore_1",
        "save/restore_1/key",
        "save/restore_1/slice",
    }
    assert after["save/save"].op == "SaveV2"
    assert list(after["save/save"].input) == list(before["save/save"].input)
    assert list(after["save/save"].attr["dtypes"].list.type) == [1, 1]
    assert "T" not in after["save/save"].attr
    assert after["save/restore_0"].op == "RestoreV2"
    assert set(after["save/restore_0"].attr) == {"dtypes"}
    assert constant_value(after["save/restore_0/key"]).tolist() == [b"fc/weights"]
    assert constant_value(after["save/restore_0/slice"]).tolist() == [b""]
    assert written.saver_def.version == 2
    assert written.saver_def.max_to_keep == 3
    assert written.saver_def.save_tensor_name == "save/control_dependency:0"
    assert written.collection_def == meta.collection_def
    assert written.signature_def == meta.signature_def
    assert written.meta_info_def.tensorflow_version == "0.12"
    assert list(written.meta_info_def.tags) == ["train"]
    assert (done.nodes, done.graph) == (len(before), tmp_path / "source/model.meta")
    assert done.num_bytes == sum(path.stat().st_size for path in tmp_path.glob("m.ckpt*"))
    assert done.notes == (
        "The .meta goes with it; its Saver saves and restores V2, 2 variables.",
        "The graph says it is of TensorFlow '0.12.head', which TensorFlow cannot import: the .meta"
        " says 0.12.",
    )


def test_the_bytes_of_what_stays_are_the_same(meta, write, tmp_path):
    # A field that a later TensorFlow may have written, and nodes in an order of their own.
    source = meta.SerializeToString(deterministic=True) + b"\x92\x03\x05later"
    prefix = write(meta)
    Path(f"{prefix}.meta").write_bytes(source)
    exporters.convert(prefix, tmp_path / "m.ckpt")
    written = Path(f"{tmp_path}/m.ckpt.meta").read_bytes()
    assert written.endswith(b"\x92\x03\x05later")
    for node in meta.graph_def.node:
        if not node.name.startswith("save/"):
            assert node.SerializeToString(deterministic=True) in written


def test_there_and_back_is_the_same_to_the_byte(dense_net, meta, write, tmp_path):
    meta.meta_info_def.tensorflow_version = "1.0.0"
    del meta.graph_def.node[:]
    builder = type(dense_net)().dense_net()
    names = add_saver(builder, version="v2")
    meta.graph_def.CopyFrom(builder.graph_def)
    assert names[2] == meta.saver_def.restore_op_name
    meta.saver_def.version = 2
    prefix = write(meta, "v2")
    exporters.convert(prefix, tmp_path / "v1", to="v1")
    assert read_meta(tmp_path / "v1").saver_def.version == 1
    assert nodes_of(read_meta(tmp_path / "v1"))["save/save"].op == "SaveSlices"
    exporters.convert(tmp_path / "v1", tmp_path / "back.ckpt")
    assert (tmp_path / "back.ckpt.meta").read_bytes() == Path(f"{prefix}.meta").read_bytes()


def test_the_same_version_and_keys_keep_the_file_as_it_is(write, meta, tmp_path):
    prefix = write(meta)
    # A field that nobody knows.
    content = Path(f"{prefix}.meta").read_bytes() + b"\xfa\x3f\x03new"
    Path(f"{prefix}.meta").write_bytes(content)
    done = exporters.convert(prefix, tmp_path / "copy", to="v1")
    assert (tmp_path / "copy.meta").read_bytes() == content
    assert done.notes == ("model.meta goes with it, as it is.",)


def test_the_saver_lists_what_the_checkpoint_holds_under_its_new_keys(meta, write, tmp_path):
    selection = Selection(exclude=("biases",), rename=("s|fc|dense|",))
    done = exporters.convert(write(meta), tmp_path / "m.ckpt", selection=selection)
    saver = saver_in(tmp_path / "m.ckpt")
    (saved,), (restored,) = saver.saves, saver.restores
    assert (saved.keys, saved.tensors) == ([b"dense/weights"], ["fc/weights"])
    assert restored.keys == [b"dense/weights"]
    after = nodes_of(read_meta(tmp_path / "m.ckpt"))
    assert list(after["save/restore_all"].input) == ["^save/Assign_0"]
    assert {name for name in nodes_of(meta) if name not in after} == {
        "save/Assign_1",
        "save/restore_1",
        "save/restore_1/key",
        "save/restore_1/slice",
    }
    assert "fc/biases" in after
    assert any(
        note == "The .meta's Saver leaves 1 variable that the checkpoint does not hold: fc/biases."
        for note in done.notes
    )


def test_a_renamed_v1_saver_stays_one(meta, write, tmp_path):
    exporters.convert(
        write(meta), tmp_path / "m", to="v1", selection=Selection(rename=("s|fc|dense|",))
    )
    saver = saver_in(tmp_path / "m")
    assert [entries.node.op for entries in saver.restores] == ["RestoreSlice"] * 2
    assert [entries.keys for entries in saver.restores] == [[b"dense/weights"], [b"dense/biases"]]
    assert saver.saves[0].node.op == "SaveSlices"


def test_an_object_based_checkpoint_whose_saver_knows_its_keys(meta, write, dense_net, tmp_path):
    from checkpoints.messages import TrackableObjectGraph

    prefix = write(meta, "v2")
    graph, values = TrackableObjectGraph(), {}
    for name, value in dense_net.values.items():
        key = f"model/{name.replace('/', '.S')}/.ATTRIBUTES/VARIABLE_VALUE"
        attributes = graph.nodes.add().attributes
        attributes.add(name="VARIABLE_VALUE", full_name=name, checkpoint_key=key)
        values[key] = value
    text = np.empty((), object)
    text[()] = graph.SerializeToString(deterministic=True)
    checkpoints.write(prefix, values | {"_CHECKPOINTABLE_OBJECT_GRAPH": text}, overwrite=True)
    Path(f"{prefix}.meta").write_bytes(meta.SerializeToString(deterministic=True))
    done = exporters.convert(prefix, tmp_path / "m.ckpt")
    assert saver_in(tmp_path / "m.ckpt").saves[0].keys == [b"fc/weights", b"fc/biases"]
    assert any("is object-based" in note for note in done.notes)


def test_a_graph_without_a_saver_gets_one(dense_net, tmp_path):
    checkpoints.write(tmp_path / "source", dense_net.values, version="v1")
    dense_net.const("save/taken", np.float32(1))
    done = exporters.convert(tmp_path / "source", tmp_path / "m.ckpt", graph=dense_net.graph)
    saver = saver_in(tmp_path / "m.ckpt")
    assert saver.filename == "save_1/Const"
    assert saver.definition.version == 2
    assert saver.saves[0].keys == [b"fc/biases", b"fc/weights"]
    assert saver.saves[0].tensors == ["fc/biases", "fc/weights"]
    written = read_meta(tmp_path / "m.ckpt").graph_def
    assert list(written.node)[: len(dense_net.graph_def.node)] == list(dense_net.graph_def.node)
    assert written.versions == dense_net.graph_def.versions
    assert done.graph is None


def test_variables_alone_have_no_meta(dense_net, tmp_path):
    checkpoints.write(tmp_path / "source", dense_net.values, version="v1")
    exporters.convert(tmp_path / "source", tmp_path / "m.ckpt")
    assert not (tmp_path / "m.ckpt.meta").exists()


def test_the_graph_of_a_run_is_the_one_it_was_trained_with(meta, write, dense_net, tmp_path):
    prefix = write(meta, "v2")
    (prefix.parent / "inference_graph.pb").write_bytes(
        dense_net.graph_def.SerializeToString(deterministic=True)
    )
    (prefix.parent / "signature.json").write_text("{}")
    done = exporters.convert(prefix, tmp_path / "m.ckpt")
    assert (tmp_path / "m.ckpt.meta").read_bytes() == meta.SerializeToString(deterministic=True)
    assert done.graph == Path(f"{prefix}.meta")


def test_an_old_meta_goes_with_its_checkpoint(meta, write, dense_net, tmp_path):
    prefix = write(meta)
    target = tmp_path / "m.ckpt"
    exporters.convert(prefix, target)
    checkpoints.write(tmp_path / "alone", dense_net.values, version="v1")
    exporters.convert(tmp_path / "alone", target, overwrite=True)
    assert not Path(f"{target}.meta").exists()
    exporters.convert(prefix, target, overwrite=True)
    assert read_meta(target).saver_def.version == 2
    # A .meta that lies there alone is not replaced without being asked.
    for path in tmp_path.glob("m.ckpt.[id]*"):
        path.unlink()
    with pytest.raises(OutputExistsError, match=r"m\.ckpt\.meta"):
        exporters.convert(prefix, target)
    assert sorted(path.name for path in tmp_path.glob("m.ckpt*")) == ["m.ckpt.meta"]


def damaged(message):
    return b"\x0a\x05damaged"


def without_node(message):
    message.saver_def.save_tensor_name = "gone:0"
    return message.SerializeToString(deterministic=True)


def unequal(message):
    nodes_of(message)["save/save"].attr["T"].list.type.append(1)
    return message.SerializeToString(deterministic=True)


def endless(message):
    tensor = nodes_of(message)["save/keys"].attr["value"].tensor
    del tensor.string_val[1:]
    tensor.tensor_shape.dim[0].size = 1 << 40
    return message.SerializeToString(deterministic=True)


def computed(message):
    nodes_of(message)["save/keys"].op = "Placeholder"
    return message.SerializeToString(deterministic=True)


def used_elsewhere(message):
    message.graph_def.node.add(name="spy", op="Identity", input=["save/restore_1"])
    return message.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (damaged, "is not a graph"),
        (without_node, "names nodes that the graph does not have"),
        (unequal, "contradicts itself"),
        (endless, "save/keys is not what save/save"),
        (computed, "does not say which variables it handles"),
        (used_elsewhere, "other nodes use nodes of the Saver"),
    ],
)
def test_a_graph_that_cannot_go_is_said_or_refused(meta, write, tmp_path, damage, reason):
    prefix = write(meta)
    path = Path(f"{prefix}.meta")
    path.write_bytes(damage(meta))
    selection = Selection(exclude=("biases",))
    done = exporters.convert(prefix, tmp_path / "m.ckpt", selection=selection)
    assert not (tmp_path / "m.ckpt.meta").exists()
    assert any(note.startswith("No .meta was written: ") and reason in note for note in done.notes)
    graph = path.rename(tmp_path / "graph.meta")
    with pytest.raises((GraphError, UnsupportedError), match=reason):
        exporters.convert(prefix, tmp_path / "n.ckpt", selection=selection, graph=graph)
    assert not list(tmp_path.glob("n.ckpt*"))


def test_what_is_no_graph_does_not_travel_unseen(meta, write, tmp_path):
    prefix = write(meta)
    Path(f"{prefix}.meta").write_bytes(b"garbage")
    done = exporters.convert(prefix, tmp_path / "m.ckpt", to="v1")
    assert not (tmp_path / "m.ckpt.meta").exists()
    assert f"No .meta was written: {prefix}.meta is not a graph." in "\n".join(done.notes)


@pytest.mark.parametrize("version", ["v1", "v2", "npz"])
def test_the_graph_of_the_first_goes_with_a_mean(meta, write, dense_net, tmp_path, version, heard):
    prefix = write(meta)
    other = {name: value + 2 for name, value in dense_net.values.items()}
    checkpoints.write(tmp_path / "other", other)
    carried = partial(carried_meta, progress=heard)
    sources = [prefix, tmp_path / "other"]
    done = checkpoints.average(sources, tmp_path / "mean", version=version, meta=carried)
    if version == "npz":
        assert not (tmp_path / "mean.meta").exists() and not heard.said
        return
    assert read_meta(tmp_path / "mean").saver_def.version == int(version[1])
    assert exporters.verify(tmp_path / "mean.meta").is_ok
    assert done.num_bytes == sum(path.stat().st_size for path in tmp_path.glob("mean*"))


def test_a_graph_of_other_shapes_is_refused(meta, write, dense_net, tmp_path):
    prefix = write(meta)
    values = dense_net.values | {"fc/biases": np.zeros(9, np.float32)}
    checkpoints.write(tmp_path / "other", values, version="v1")
    with pytest.raises(GraphError) as caught:
        exporters.convert(tmp_path / "other", tmp_path / "m.ckpt", graph=Path(f"{prefix}.meta"))
    assert "do not fit:\n  fc/biases: graph float32 [4], checkpoint float32 [9]" in str(
        caught.value
    )
    assert not list(tmp_path.glob("m.ckpt*"))


def test_a_graph_of_other_variables_is_refused(meta, write, tmp_path):
    prefix = write(meta)
    checkpoints.write(tmp_path / "other", {"w": np.float32([1])}, version="v1")
    with pytest.raises(GraphError, match="has none of the checkpoint's variables"):
        exporters.convert(tmp_path / "other", tmp_path / "m.ckpt", graph=Path(f"{prefix}.meta"))


@pytest.mark.parametrize(
    ("version", "importable"),
    [
        ("", ""),
        ("1.8.0", "1.8.0"),
        ("1.13.0-rc1", "1.13.0-rc1"),
        ("1.15.0-dev20190821", "1.15.0-dev20190821"),
        ("2.0.0-beta1", "2.0.0-beta1"),
        ("0.12.head", "0.12"),
        ("0.8.0rc0-head", "0.8.0"),
        ("head", "0"),
    ],
)
def test_versions_that_tensorflow_can_import(version, importable):
    from packaging.version import parse

    assert importable_version(version) == importable
    if importable:
        parse(importable)


class TestProof:
    """Each change that is not the Saver's, and each Saver that does not fit, is found."""

    @pytest.fixture
    def parts(self, meta, write, tmp_path):
        prefix = write(meta)
        exporters.convert(prefix, tmp_path / "m.ckpt")
        with checkpoints.open(prefix) as saved:
            held = {name: header_of(saved, name) for name in saved}
        return meta, read_meta(tmp_path / "m.ckpt"), held

    def prove(self, parts, **changes):
        source, written, held = parts
        arguments = {
            "version": "v2",
            "held": held,
            "renamed": {name: name for name in held},
            "absent": (),
            "label": "m.meta",
        }
        prove_meta(
            source.SerializeToString(deterministic=True),
            written.SerializeToString(deterministic=True),
            **(arguments | changes),
        )

    def test_what_was_written_passes(self, parts):
        self.prove(parts)

    @pytest.mark.parametrize(
        ("tamper", "problem"),
        [
            (lambda m: m.collection_def["variables"].bytes_list.value.append(b""), "collections"),
            (lambda m: m.graph_def.library.function.add(), "Functions or versions"),
            (lambda m: m.meta_info_def.tags.append("serve"), "meta information"),
            (
                lambda m: setattr(m.meta_info_def, "tensorflow_version", "9.9"),
                "meta information",
            ),
            (lambda m: setattr(nodes_of(m)["probs"], "op", "Sigmoid"), "not the Saver's:\n  probs"),
            (lambda m: setattr(nodes_of(m)["fc/biases"], "device", "/gpu:0"), "fc/biases"),
            (lambda m: m.graph_def.node.add(name="new", op="NoOp"), "new"),
            (lambda m: m.graph_def.node.add(name="probs", op="NoOp"), "Two nodes have one name"),
            (lambda m: m.graph_def.node.pop(0), "matmul takes x"),
            (lambda m: m.graph_def.node.pop(), "not the Saver's:\n  mine"),
            (lambda m: m.graph_def.node.reverse(), "another order"),
            (lambda m: m.ClearField("saver_def"), "no SaverDef"),
            (lambda m: setattr(m.saver_def, "version", 1), "another version"),
            (lambda m: setattr(m.saver_def, "max_to_keep", 9), "more than its version"),
            (
                lambda m: nodes_of(m)["save/save"].input.__setitem__(3, "fc/biases"),
                "does not restore what it saves",
            ),
            (
                lambda m: nodes_of(m)["save/restore_all"].input.pop(),
                "not the Saver's:\n  save/restore_1",
            ),
            (
                lambda m: nodes_of(m)["save/Assign_0"].input.__setitem__(1, "save/gone"),
                "take what is not there",
            ),
        ],
    )
    def test_a_change_is_found(self, parts, tamper, problem):
        tamper(parts[1])
        with pytest.raises(VerificationError, match=problem):
            self.prove(parts)

    def test_keys_and_dtypes_are_the_checkpoints(self, parts):
        held = parts[2]
        with pytest.raises(VerificationError, match="does not handle what the checkpoint holds"):
            self.prove(parts, held={**held, "more": held["fc/biases"]})
        self.prove(parts, held={**held, "more": held["fc/biases"]}, absent=("more",))
        other = header_of({"x": np.float64([1])}, "x")
        with pytest.raises(VerificationError, match="other dtypes"):
            self.prove(parts, held={**held, "fc/biases": other})

    def test_variables_that_changed_places_are_found(self, parts):
        nodes = nodes_of(parts[1])
        for name, index in (("save/save", 3), ("save/Assign_0", 0)):
            nodes[name].input[index] = "fc/biases"
        for name, index in (("save/save", 4), ("save/Assign_1", 0)):
            nodes[name].input[index] = "fc/weights"
        with pytest.raises(VerificationError, match="saved from other nodes"):
            self.prove(parts)

    def test_damage_is_found(self, parts):
        source, written, held = parts
        with pytest.raises(VerificationError, match="cut or damaged"):
            prove_meta(
                source.SerializeToString(deterministic=True),
                written.SerializeToString(deterministic=True)[:-2],
                version="v2",
                held=held,
                renamed={name: name for name in held},
                absent=(),
                label="m.meta",
            )
