"""A .meta that goes with a converted checkpoint, imported and restored by TensorFlow itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import checkpoints
import exporters
from checkpoints.messages import MetaGraphDef
from checkpoints.selection import Selection
from exporters.constants import constant_value

pytestmark = pytest.mark.tensorflow

OTHER = {"v1": "v2", "v2": "v1"}


@dataclass
class Made:
    """What TensorFlow saved.

    Attributes:
      prefix: of the checkpoint, PREFIX.meta beside it.
      values: what the variables held, by the names of their nodes.
    """

    prefix: Path
    values: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def tf():
    from exporters.runtime import load_tensorflow

    return load_tensorflow()


def session_of(tf):
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    return tf.compat.v1.Session(config=config)


@pytest.fixture
def make(tf, tmp_path) -> Callable[..., Made]:
    """Builds a graph, fills its variables and saves it."""

    def make(
        build: Callable[[Any], Any],
        version: str = "v2",
        *,
        resource: bool = False,
        sharded: bool = False,
        saver: Callable[[Any], Any] | None = None,
    ) -> Made:
        v1 = tf.compat.v1
        prefix = tmp_path / "source" / "model.ckpt"
        prefix.parent.mkdir()
        with tf.Graph().as_default():
            with v1.variable_scope(v1.get_variable_scope(), use_resource=resource):
                build(tf)
            write_version = getattr(v1.train.SaverDef, version.upper())
            made = (
                saver or (lambda v1: v1.train.Saver(sharded=sharded, write_version=write_version))
            )(v1)
            generator = np.random.default_rng(5)
            values = {}
            with session_of(tf) as session:
                session.run([v1.global_variables_initializer(), v1.tables_initializer()])
                for variable in v1.global_variables():
                    dtype = variable.dtype.base_dtype
                    value = session.run(variable)
                    if dtype.is_floating:
                        value = generator.normal(size=value.shape).astype(value.dtype)
                        variable.load(value, session)
                    values[variable.op.name] = value
                made.save(session, str(prefix))
        return Made(prefix, values)

    return make


def value_of(tf, name):
    """A tensor, or the value of the variable whose handle it is."""
    tensor = tf.compat.v1.get_default_graph().get_tensor_by_name(f"{name}:0")
    if tensor.dtype != tf.resource:
        return tensor
    return tf.raw_ops.ReadVariableOp(resource=tensor, dtype=tensor.op.get_attr("dtype"))


def restored(tf, prefix: Path, names, feeds=None):
    """Imports PREFIX.meta, restores PREFIX and reads variables or other tensors by name.

    The Saver then saves again: what it writes has to be the same checkpoint.
    """
    v1 = tf.compat.v1
    with tf.Graph().as_default(), session_of(tf) as session:
        saver = v1.train.import_meta_graph(f"{prefix}.meta")
        saver.restore(session, str(prefix))
        values = session.run({name: value_of(tf, name) for name in names}, feeds)
        again = saver.save(session, str(prefix.parent / "again"), write_meta_graph=False)
        version = saver.saver_def.version
    with checkpoints.open(prefix) as first, checkpoints.open(again) as second:
        assert first.family.kind == second.family.kind == f"checkpoint-v{version}"
        assert sorted(first) == sorted(second)
        for name in first:
            assert first.variables[name] == second.variables[name]
            assert np.array_equal(first[name], second[name]), name
    return values


def two_devices(tf):
    v1 = tf.compat.v1
    with tf.device("/cpu:0"):
        v1.get_variable("net/w", [4, 3])
        v1.get_variable("step", initializer=np.int64(7), dtype=tf.int64)
    with tf.device("/cpu:1"):
        v1.get_variable("net/b", [3])
        v1.get_variable("flag", initializer=np.array([True, False]), dtype=tf.bool)


def same_values(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.asarray(found[name]).dtype == value.dtype
        assert np.array_equal(found[name], value), name


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("sharded", [False, True])
def test_a_saver_of_the_other_version_and_back(tf, make, tmp_path, version, resource, sharded):
    made = make(two_devices, version, resource=resource, sharded=sharded)
    there = tmp_path / "there" / "m.ckpt"
    done = exporters.convert(made.prefix, there, to=OTHER[version])
    assert done.graph == made.prefix.with_name("model.ckpt.meta")
    assert done.verification.mode == "structure"
    same_values(restored(tf, there, made.values), made.values)
    back = tmp_path / "back" / "m.ckpt"
    exporters.convert(there, back, to=version)
    same_values(restored(tf, back, made.values), made.values)
    meta = MetaGraphDef.FromString(Path(f"{back}.meta").read_bytes())
    source = MetaGraphDef.FromString(Path(f"{made.prefix}.meta").read_bytes())
    assert meta.saver_def == source.saver_def
    if not sharded:
        assert Path(f"{back}.meta").read_bytes() == Path(f"{made.prefix}.meta").read_bytes()


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("partition", [False, True])
def test_slices_of_a_partitioned_variable_stay_slices(
    tf, make, tmp_path, version, resource, partition
):
    def build(tf):
        v1 = tf.compat.v1
        v1.get_variable("w", [7, 2], partitioner=v1.fixed_size_partitioner(3))
        v1.get_variable("b", [2])

    from checkpoints.slicing import Slicing

    made = make(build, version, resource=resource)
    there = tmp_path / "there" / "m.ckpt"
    slicing = Slicing(2) if partition else None
    exporters.convert(made.prefix, there, to=OTHER[version], slicing=slicing)
    assert len(made.values) == 4
    same_values(restored(tf, there, made.values), made.values)
    with checkpoints.open(there) as saved:
        assert {name: saved.variables[name].shape for name in saved} == {"b": (2,), "w": (7, 2)}
        parts = [made.values[f"w/part_{index}"] for index in range(3)]
        assert np.array_equal(saved["w"], np.concatenate(parts))


@pytest.mark.parametrize(("dtype", "goes"), [("float16", False), ("bfloat16", True)])
def test_slices_in_a_dtype_of_which_tensorflow_restores_none(tf, make, tmp_path, dtype, goes):
    def build(tf):
        v1 = tf.compat.v1
        v1.get_variable("w", [7, 2], partitioner=v1.fixed_size_partitioner(3))
        v1.get_variable("b", [2])

    made = make(build)
    there = tmp_path / "m.ckpt"
    done = exporters.convert(made.prefix, there, selection=Selection(dtype=dtype))
    assert Path(f"{there}.meta").exists() is goes
    if goes:
        found = restored(tf, there, made.values)
        wanted = made.values["w/part_0"].astype(tf.bfloat16.as_numpy_dtype)
        assert np.array_equal(found["w/part_0"], wanted.astype(np.float32))
        return
    said = "\n".join(done.notes)
    assert "TensorFlow restores no slices of their dtype in the checkpoint:\n  w: float16" in said
    assert "Next: Write them in a dtype that it restores" in said
    with pytest.raises(tf.errors.InvalidArgumentError, match="Dtype half not supported"):
        tf.raw_ops.RestoreV2(
            prefix=str(there),
            tensor_names=["w"],
            shape_and_slices=["7 2 0,3:0,2"],
            dtypes=[tf.half],
        )


def test_what_tensorflow_restores_from_v1_is_not_doubted(tf, make, tmp_path):
    def build(tf):
        for name in ("uint32", "uint64"):
            tf.compat.v1.get_variable(name, initializer=np.array([7, 9], name), use_resource=True)
        tf.compat.v1.get_variable("b", [2], dtype=tf.bfloat16)

    made = make(build)
    done = exporters.convert(made.prefix, tmp_path / "m", to="v1")
    assert [note for note in done.notes if "cannot restore" in note] == [
        "TensorFlow cannot restore 1 variable from V1, whose dtypes it does not read there: b."
    ]
    for name in ("uint32", "uint64"):
        (found,) = tf.raw_ops.RestoreV2(
            prefix=str(tmp_path / "m"),
            tensor_names=[name],
            shape_and_slices=[""],
            dtypes=[tf.as_dtype(name)],
        )
        assert found.numpy().tolist() == [7, 9]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_variables_that_were_renamed_and_dropped(tf, make, tmp_path, version):
    def build(tf):
        v1 = tf.compat.v1
        w = v1.get_variable("net/w", [3, 2])
        b = v1.get_variable("net/b", [2])
        v1.train.AdamOptimizer().minimize(tf.reduce_sum(w) + tf.reduce_sum(b))

    made = make(build, version)
    assert len(made.values) == 8
    there = tmp_path / "m.ckpt"
    selection = Selection(drop=("slots",), rename=("s|^net/|tower/|",))
    done = exporters.convert(made.prefix, there, selection=selection, to="v2")
    with checkpoints.open(there) as saved:
        assert list(saved) == ["tower/b", "tower/w"]
    kept = {name: made.values[name] for name in ("net/w", "net/b")}
    same_values(restored(tf, there, kept), kept)
    assert any("leaves 6 variables" in note for note in done.notes)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("target", ["v1", "v2"])
def test_a_shard_that_holds_nothing_any_more(tf, make, tmp_path, version, target):
    made = make(two_devices, version, sharded=True)
    there = tmp_path / "m.ckpt"
    selection = Selection(exclude=("^net/b$", "^flag$"))
    exporters.convert(made.prefix, there, selection=selection, to=target)
    kept = {name: made.values[name] for name in ("net/w", "step")}
    same_values(restored(tf, there, kept), kept)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("target", ["v1", "v2"])
def test_variables_that_are_kept_in_another_dtype(tf, make, tmp_path, resource, target):
    made = make(two_devices, "v1", resource=resource)
    there = tmp_path / "m.ckpt"
    exporters.convert(made.prefix, there, selection=Selection(dtype="float16"), to=target)
    found = restored(tf, there, made.values)
    for name, value in made.values.items():
        expected = value
        if value.dtype == np.float32:
            expected = value.astype(np.float16).astype(np.float32)
        assert np.array_equal(found[name], expected)


@pytest.mark.parametrize("options", [{"reshape": True}, {"restore_sequentially": True}])
def test_savers_with_options(tf, make, tmp_path, options):
    def saver(v1):
        return v1.train.Saver(write_version=v1.train.SaverDef.V1, sharded=True, **options)

    made = make(two_devices, saver=saver)
    there = tmp_path / "m.ckpt"
    exporters.convert(made.prefix, there, selection=Selection(exclude=("step",)))
    kept = {name: made.values[name] for name in ("net/w", "net/b", "flag")}
    same_values(restored(tf, there, kept), kept)


def test_averages_in_place_of_their_variables(tf, make, tmp_path):
    def build(tf):
        v1 = tf.compat.v1
        w = v1.get_variable("w", [2])
        tf.compat.v1.train.ExponentialMovingAverage(0.9).apply([w])

    made = make(build, resource=True)
    there = tmp_path / "m.ckpt"
    exporters.convert(made.prefix, there, selection=Selection(weights="ema"))
    found = restored(tf, there, ["w"])
    assert np.array_equal(found["w"], made.values["w/ExponentialMovingAverage"])


def test_a_saver_with_names_of_its_own_among_others(tf, make, tmp_path):
    def saver(v1):
        by_name = {variable.op.name: variable for variable in v1.global_variables()}
        v1.train.Saver([by_name["net/w"]], name="first")
        main = v1.train.Saver(
            {"kernel": by_name["net/w"], "bias": by_name["net/b"]},
            write_version=v1.train.SaverDef.V1,
        )
        v1.train.Saver(name="last")
        return main

    made = make(two_devices, saver=saver)
    there = tmp_path / "m.ckpt"
    done = exporters.convert(made.prefix, there)
    with checkpoints.open(there) as saved:
        assert list(saved) == ["bias", "kernel"]
    kept = {name: made.values[name] for name in ("net/w", "net/b")}
    same_values(restored(tf, there, kept), kept)
    assert (
        "Nodes of other Savers stay as they are: first/SaveV2 (SaveV2), first/RestoreV2"
        " (RestoreV2), last/SaveV2 (SaveV2) and 1 more." in done.notes
    )


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_table_keeps_its_own_way_of_restoring(tf, make, tmp_path, version):
    def build(tf):
        tf.compat.v1.get_variable("w", [2])
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1, name="table")
        filled = table.insert(tf.constant(["b"]), tf.constant([5], tf.int64))
        tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS, filled)
        tf.identity(table.lookup(tf.constant(["b", "c"])), name="looked_up")

    made = make(build, version)
    there = tmp_path / "m.ckpt"
    exporters.convert(made.prefix, there, to=OTHER[version])
    found = restored(tf, there, ["w", "looked_up"])
    assert np.array_equal(found["w"], made.values["w"])
    assert found["looked_up"].tolist() == [5, -1]
    # Half of a table cannot be restored: it goes as a whole.
    half = tmp_path / "half.ckpt"
    done = exporters.convert(made.prefix, half, selection=Selection(exclude=("values$",)))
    assert any("leaves 2 variables" in note for note in done.notes)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), session_of(tf) as session:
        v1.train.import_meta_graph(f"{half}.meta").restore(session, str(half))
        assert np.array_equal(session.run("w:0"), made.values["w"])


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_graph_without_a_saver_gets_one(tf, make, tmp_path, resource, version):
    made = make(two_devices, resource=resource)
    graph_def = MetaGraphDef.FromString(Path(f"{made.prefix}.meta").read_bytes()).graph_def
    for index in reversed(range(len(graph_def.node))):
        if graph_def.node[index].name.startswith("save/"):
            del graph_def.node[index]
    graph = tmp_path / "graph.pb"
    graph.write_bytes(graph_def.SerializeToString())
    there = tmp_path / "m.ckpt"
    exporters.convert(made.prefix, there, graph=graph, to=version)
    same_values(restored(tf, there, made.values), made.values)


def test_variables_that_the_saver_leaves_are_added(tf, make, tmp_path):
    made = make(two_devices)
    with checkpoints.open(made.prefix) as saved:
        checkpoints.write(tmp_path / "more.ckpt", dict(saved) | {"stranger": np.float32(1)})

    def saver(v1):
        return v1.train.Saver([v1.global_variables()[0]])

    (tmp_path / "source").rename(tmp_path / "first")
    graph = Path(f"{make(two_devices, saver=saver).prefix}.meta")
    done = exporters.convert(tmp_path / "more.ckpt", tmp_path / "m.ckpt", graph=graph)
    v1 = tf.compat.v1
    with tf.Graph().as_default(), session_of(tf) as session:
        v1.train.import_meta_graph(f"{tmp_path / 'm.ckpt'}.meta").restore(
            session, str(tmp_path / "m.ckpt")
        )
        found = session.run({name: value_of(tf, name) for name in made.values})
    same_values(found, made.values)
    assert (
        "The .meta's Saver leaves 1 variable of the checkpoint, which none of the graph's fits:"
        " stranger." in done.notes
    )


def test_a_saved_model_of_tensorflow_2(tf, tmp_path):
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(np.float32([[1, 2], [3, 4]]), name="net/w")
            self.b = tf.Variable(np.float32([5, 6]), name="net/b")

        @tf.function(input_signature=[tf.TensorSpec([None, 2])])
        def __call__(self, x):
            return {"y": x @ self.w + self.b}

    tf.saved_model.save(Net(), str(tmp_path / "saved"))
    there = tmp_path / "m.ckpt"
    done = exporters.convert(tmp_path / "saved", there)
    assert any("lists no variables" in note and "to train" in note for note in done.notes)
    with checkpoints.open(there) as saved:
        assert list(saved) == ["net/b", "net/w"]
    found = restored(tf, there, ["net/w/Read/ReadVariableOp", "net/b/Read/ReadVariableOp"])
    assert found["net/w/Read/ReadVariableOp"].tolist() == [[1, 2], [3, 4]]


def test_lenet_of_2016_gives_the_same_answers(tf, shared, tmp_path):
    source = shared / "data/models/lenet_300_100_v1/model.ckpt"
    there = tmp_path / "m.ckpt"
    exporters.convert(source, there)
    pictures = np.random.default_rng(0).uniform(size=(5, 784)).astype(np.float32)
    feeds = {"Placeholder:0": pictures}
    v1 = tf.compat.v1
    with tf.Graph().as_default(), session_of(tf) as session:
        v1.train.import_meta_graph(f"{source}.meta").restore(session, str(source))
        logits = session.run("add:0", feeds)
    assert np.array_equal(restored(tf, there, ["add"], feeds)["add"], logits)


def test_half_plus_two_of_2016_whose_meta_tensorflow_cannot_import(tf, shared, tmp_path):
    source = shared / "data/models/half_plus_two_v1_sharded/export"
    there = tmp_path / "m.ckpt"
    done = exporters.convert(source, there)
    with tf.Graph().as_default(), pytest.raises(Exception, match="Invalid version"):
        tf.compat.v1.train.import_meta_graph(f"{source}.meta")
    meta = MetaGraphDef.FromString(Path(f"{there}.meta").read_bytes())
    assert meta.meta_info_def.tensorflow_version == "0.12"
    found = restored(tf, there, ["a", "b", "y"], {"x:0": np.float32([[0], [4]])})
    assert (found["a"], found["b"]) == (0.5, 2.0)
    assert found["y"].tolist() == [[2], [4]]
    assert any("which TensorFlow cannot import: the .meta says 0.12." in n for n in done.notes)


def test_mnist_mlp_through_v1_and_back_is_the_same_to_the_byte(tf, shared, tmp_path):
    source = shared / "data/models/mnist_mlp/model.ckpt-1999"
    exporters.convert(source, tmp_path / "v1/m", to="v1")
    exporters.convert(tmp_path / "v1/m", tmp_path / "v2/m.ckpt")
    names = [
        bytes(key).decode()
        for key in constant_value(
            next(
                node
                for node in MetaGraphDef.FromString(
                    Path(f"{source}.meta").read_bytes()
                ).graph_def.node
                if node.name == "save/SaveV2/tensor_names"
            )
        )
    ]
    with checkpoints.open(source) as saved:
        values = {name: saved[name] for name in names}
    same_values(restored(tf, tmp_path / "v1/m", names), values)
    assert Path(f"{tmp_path}/v2/m.ckpt.meta").read_bytes() == Path(f"{source}.meta").read_bytes()
