"""Object-based checkpoints without TensorFlow: names, roles, and graphs nobody should trust."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import checkpoints
from checkpoints import object_based
from checkpoints.messages import TrackableObjectGraph
from checkpoints.names import OBJECT_GRAPH_KEY
from checkpoints.object_based import plain_names

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class Objects:
    """Builds an object graph and the values that belong to it."""

    def __init__(self):
        self.graph = TrackableObjectGraph()
        self.values = {}

    def add(self, path=None, full_name="", **children):
        """Adds an object; with a path it is a variable. Children are local name -> index."""
        node = self.graph.nodes.add()
        for name, index in children.items():
            node.children.add(node_id=index, local_name=name.removeprefix("_n"))
        if path is not None:
            key = path + VALUE
            node.attributes.add(name="VARIABLE_VALUE", full_name=full_name, checkpoint_key=key)
            self.values[key] = np.float32(len(self.values))
        return len(self.graph.nodes) - 1

    def write(self, prefix, graph=None):
        data = self.graph.SerializeToString() if graph is None else graph
        text = np.empty((), object)
        text[()] = data
        checkpoints.write(prefix, self.values | {OBJECT_GRAPH_KEY: text})
        return prefix


@pytest.fixture
def objects():
    return Objects()


def test_variables_go_by_their_full_names(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    objects.add("model/unnamed")
    objects.values["table/.ATTRIBUTES/table-keys"] = np.int64([1, 2])
    objects.values["stranger"] = np.int64(7)
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        assert list(saved) == [
            "dense/kernel", "model/unnamed", "stranger", "table/.ATTRIBUTES/table-keys",
        ]  # fmt: skip
        assert saved["dense/kernel"] == objects.values["model/kernel" + VALUE]
        assert bytes(saved.bytes_of("model/unnamed")) == np.float32(1).tobytes()
        assert saved.variables["dense/kernel"].name == "dense/kernel"
        assert saved.objects.keys["dense/kernel"] == "model/kernel" + VALUE
        assert saved.objects.notes == ()
        assert saved.role("table/.ATTRIBUTES/table-keys") == "other"


def test_keys_can_be_asked_for(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt"), plain_names=False) as saved:
        assert list(saved) == [OBJECT_GRAPH_KEY, "model/kernel" + VALUE]
        assert saved[OBJECT_GRAPH_KEY].item() == objects.graph.SerializeToString()
        assert saved.objects.keys == {}


def test_shared_names_become_paths_and_nothing_is_lost(objects, tmp_path):
    for part in ("a", "b", "c"):
        objects.add(f"model/{part}", "Variable")
    objects.add("model/d", "bias")
    # Another variable is called what a path would be.
    objects.add("other", "model/a")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        assert dict(saved.objects.keys) == {
            "bias": "model/d" + VALUE,
            "model/a" + VALUE: "model/a" + VALUE,
            "model/b": "model/b" + VALUE,
            "model/c": "model/c" + VALUE,
            "other": "other" + VALUE,
        }
        assert saved.objects.notes == (
            "4 variables listed by path or key, since several have one name, as 'Variable'.",
        )
        assert sorted(float(saved[name]) for name in saved) == [0, 1, 2, 3, 4]


def test_a_long_chain_of_shared_names_ends_in_keys():
    # Each path is another one's full name, so that who moves displaces the next.
    keys = [f"p{i}{VALUE}" for i in range(50)]
    names = {key: f"p{i + 1}" for i, key in enumerate(keys)} | {"z" + VALUE: "p50"}
    found, notes = plain_names([*keys, "z" + VALUE], names)
    assert found == {key: key for key in [*keys, "z" + VALUE]}
    assert notes == ("51 variables listed by path or key, since several have one name, as 'p50'.",)


def test_two_names_for_one_key_count_as_none(objects, tmp_path):
    objects.add("model/a", "first")
    objects.add("model/a", "second")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        assert list(saved) == ["model/a"]


def test_roles_come_from_the_graph(objects, tmp_path):
    kernel = objects.add("net/kernel", "kernel")
    slot = objects.add("net/kernel/.OPTIMIZER_SLOT/opt/m", "moment")
    power = objects.add("opt/power", "power")
    optimizer = objects.add(power=power)
    objects.graph.nodes[optimizer].slot_variables.add(
        original_variable_node_id=kernel, slot_name="m", slot_variable_node_id=slot
    )
    # An optimiser as Keras has it, whose own lists hold the model's variables too.
    weight = objects.add("keras/_trainable_variables/0", "dense/weight")
    average = objects.add("keras/_variables/2", "dense/weight_average")
    speed = objects.add("keras/_variables/1", "speed")
    count = objects.add("keras/_iterations", "count")
    own = objects.add(_n0=count, _n1=speed, _n2=average)
    trained = objects.add(_n0=weight)
    averages = objects.add(_n0=average)
    objects.add(
        _variables=own,
        _iterations=count,
        _trainable_variables=trained,
        _model_variables_moving_average=averages,
    )
    objects.add("keras_api/metrics/0/total", "total")
    objects.add("save_counter", "counter")
    objects.add("global_step", "Variable")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        assert {name: saved.role(name) for name in saved} == {
            "Variable": "step",
            "count": "slot",
            "counter": "other",
            "dense/weight": "model",
            "dense/weight_average": "ema",
            "kernel": "model",
            "moment": "slot",
            "power": "slot",
            "speed": "slot",
            "total": "other",
        }


def test_a_name_based_copy_holds_the_same(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    objects.add("model/bias", "dense/bias")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        for version in ("v1", "v2"):
            checkpoints.write(tmp_path / version, saved, version=version)
            with checkpoints.open(tmp_path / version) as copy:
                assert list(copy) == ["dense/bias", "dense/kernel"]
                assert copy.objects is None
                assert all(copy[name] == saved[name] for name in saved)


def cyclic(objects):
    first = objects.graph.nodes[0]
    first.children.add(node_id=0, local_name="itself")
    first.children.add(node_id=99, local_name="nothing is looked up here")
    return objects.graph.SerializeToString()


def cut(objects):
    return objects.graph.SerializeToString()[:-3]


def slot_out_of_range(objects):
    objects.graph.nodes[0].slot_variables.add(slot_variable_node_id=7)
    return objects.graph.SerializeToString()


def negative_slot(objects):
    objects.graph.nodes[0].slot_variables.add(slot_variable_node_id=-1)
    return objects.graph.SerializeToString()


def optimizer_out_of_range(objects):
    objects.add(_variables=500, _iterations=0)
    return objects.graph.SerializeToString()


def no_text(objects):
    node = objects.graph.SerializeToString()
    return node.replace(b"dense", b"\xff\xfe\xfd\xfc\xfb")


def empty_objects(objects):
    return b"\x0a\x00" * (object_based.MAX_OBJECTS + 1)


def one_long_object(objects):
    children = b"\x0a\x00" * (object_based.MAX_OBJECT_BYTES // 2 + 1)
    return b"\x0a" + b"\x82\x80\x40" + children


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "does not fit its message"),
        (slot_out_of_range, "names object 7 of 1"),
        (negative_slot, "names object -1 of 1"),
        (optimizer_out_of_range, "names object 500 of 2"),
        (no_text, "object 0 is damaged"),
        (empty_objects, "larger than any model's"),
        (one_long_object, "larger than any model's"),
        (lambda objects: b"\xff" * 20, "more than 64 bits"),
    ],
)
def test_a_graph_that_cannot_be_used_leaves_the_keys(objects, tmp_path, damage, reason):
    objects.add("model/kernel", "dense/kernel")
    prefix = objects.write(tmp_path / "m.ckpt", damage(objects))
    with checkpoints.open(prefix) as saved:
        assert list(saved) == [OBJECT_GRAPH_KEY, "model/kernel" + VALUE]
        (note,) = saved.objects.notes
        assert note.startswith("The object graph cannot be read (")
        assert reason in note
        assert note.endswith("): variables are listed under their keys.")
        assert saved["model/kernel" + VALUE] == 0


def test_cycles_and_edges_to_nowhere_are_harmless(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    with checkpoints.open(objects.write(tmp_path / "m.ckpt", cyclic(objects))) as saved:
        assert list(saved) == ["dense/kernel"]


@pytest.mark.parametrize("name", ["\0", "a\0b", OBJECT_GRAPH_KEY])
def test_a_name_that_cannot_be_one_is_none(objects, tmp_path, name):
    objects.add("model/kernel", name)
    with checkpoints.open(objects.write(tmp_path / "m.ckpt")) as saved:
        assert list(saved) == ["model/kernel"]


def test_a_graph_of_another_dtype_or_shape_is_none(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    for name, value in (("number", np.float32(1)), ("row", np.array([b"a", b"b"], object))):
        checkpoints.write(tmp_path / name, objects.values | {OBJECT_GRAPH_KEY: value})
        with checkpoints.open(tmp_path / name) as saved:
            assert "not a string" in saved.objects.notes[0]
            assert len(saved) == 2


def test_a_lost_data_file_leaves_the_keys(objects, tmp_path):
    objects.add("model/kernel", "dense/kernel")
    prefix = objects.write(tmp_path / "m.ckpt")
    (tmp_path / "m.ckpt.data-00000-of-00001").unlink()
    with checkpoints.open(prefix) as saved:
        assert list(saved) == [OBJECT_GRAPH_KEY, "model/kernel" + VALUE]
        assert "the file is missing" in saved.objects.notes[0]


HOSTILE = r"""
import resource
from checkpoints import object_based

children = b"\x0a\x00" * (object_based.MAX_OBJECT_BYTES // 2 - 8)
node = b"\x0a" + b"\xf0\xff\x3f" + children
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert object_based.parse_object_graph(node * 16, {}).full_names == {}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
def test_a_hostile_graph_takes_little_memory():
    # Eight million empty messages: parsed at once they take half a gigabyte.
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE], check=True, capture_output=True, text=True
    )
    assert int(run.stdout) < 100 << 10


def test_a_declared_size_is_compared_before_reading(objects, tmp_path, monkeypatch):
    objects.add("model/kernel", "dense/kernel")
    prefix = objects.write(tmp_path / "m.ckpt")
    monkeypatch.setattr(object_based, "MAX_GRAPH_BYTES", 10)
    with checkpoints.open(prefix) as saved:
        assert "10 are read at most" in saved.objects.notes[0]
