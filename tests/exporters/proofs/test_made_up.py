"""Inputs that are made up to run a graph with."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.errors import UnsupportedError
from exporters.names import TensorName
from exporters.proofs.made_up import made_up_inputs

FLOAT = np.dtype("float32")
INT64 = np.dtype("int64")


def made_up_ids(graph):
    return made_up_inputs(graph, [TensorName("ids")], 200, np.random.default_rng(0))["ids:0"]


def test_indices_are_in_range_of_all_they_pick_from(builder):
    builder.add("Placeholder", "ids", dtype=INT64, shape=(None,))
    for name, rows in (("many", 40), ("few", 7)):
        table = builder.variable(name, np.ones((rows, 2), np.float32))
        same = builder.add("Identity", f"{name}/ids", "ids", T=INT64)
        types = {"Tparams": FLOAT, "Tindices": INT64}
        builder.add("Gather", f"{name}/gather", table, same, **types)
    assert sorted(set(made_up_ids(builder.graph))) == [0, 1, 2, 3, 4, 5, 6]


def test_indices_along_another_axis(builder):
    builder.add("Placeholder", "ids", dtype=INT64, shape=(None,))
    table = builder.variable("table", np.ones((2, 5), np.float32))
    axis = builder.const("axis", np.int32(-1))
    types = {"Tparams": FLOAT, "Tindices": INT64, "Taxis": np.dtype("int32")}
    builder.add("GatherV2", "gather", table, "ids", axis, **types)
    assert max(made_up_ids(builder.graph)) == 4


def test_classes_of_one_hot(builder):
    builder.add("Placeholder", "ids", dtype=INT64, shape=(None,))
    depth = builder.const("depth", np.int32(3))
    builder.add("OneHot", "hot", "ids", depth, T=FLOAT, TI=INT64)
    assert sorted(set(made_up_ids(builder.graph))) == [0, 1, 2]


def test_what_picks_from_something_unknown_gets_0_and_1(builder):
    builder.add("Placeholder", "ids", dtype=INT64, shape=(None,))
    builder.add("Placeholder", "table", dtype=FLOAT)
    builder.add("Gather", "gather", "table", "ids", Tparams=FLOAT, Tindices=INT64)
    assert sorted(set(made_up_ids(builder.graph))) == [0, 1]


def test_numbers_that_become_floats_may_be_any(builder):
    builder.add("Placeholder", "ids", dtype=INT64, shape=(None,))
    builder.add("Cast", "floats", "ids", SrcT=INT64, DstT=FLOAT)
    assert max(made_up_ids(builder.graph)) == 9


def test_made_up_inputs_fit_their_placeholders(builder):
    add = builder.add
    add("Placeholder", "pictures", dtype=FLOAT, shape=(None, 2, 2, 3))
    add("Placeholder", "bytes", dtype=np.dtype("uint8"), shape=(None, 100))
    add("Placeholder", "ids", dtype=np.dtype("int64"), shape=(5,))
    add("Placeholder", "is_training", dtype=np.dtype("bool"), shape=())
    add("Placeholder", "net/keep_prob", dtype=FLOAT, shape=())
    add("Placeholder", "rate", dtype=FLOAT, shape=())
    add("PlaceholderWithDefault", "optional", "rate", dtype=FLOAT, shape=())
    from exporters.inspecting.endpoints import placeholders

    graph = builder.graph
    feeds = made_up_inputs(graph, placeholders(graph), 2, np.random.default_rng(0))
    assert {name: (value.dtype.name, value.shape) for name, value in feeds.items()} == {
        "pictures:0": ("float32", (2, 2, 2, 3)),
        "bytes:0": ("uint8", (2, 100)),
        "ids:0": ("int64", (5,)),
        "is_training:0": ("bool", ()),
        "net/keep_prob:0": ("float32", ()),
        "rate:0": ("float32", ()),
    }
    assert feeds["pictures:0"].min() < 0 < feeds["pictures:0"].max() <= 1
    assert feeds["bytes:0"].max() > 100
    assert feeds["ids:0"].max() < 10
    assert not feeds["is_training:0"]
    assert feeds["net/keep_prob:0"] == 1
    assert feeds["rate:0"] == 0


@pytest.mark.parametrize(
    ("dtype", "shape", "step"),
    [
        ("float32", None, "--inputs x=?x224x224x3, or use --verify structure."),
        ("float32", (None, None, 3), "--inputs x=?x224x3, or use"),
        ("float32", (2, None), "--inputs x=2x224, or use"),
        ("str", (None,), "Use --verify structure."),
    ],
)
def test_inputs_that_cannot_be_made_up_are_named(builder, dtype, shape, step):
    attributes = {} if shape is None else {"shape": shape}
    builder.add("Placeholder", "x", dtype=np.dtype(dtype), **attributes)
    with pytest.raises(UnsupportedError, match="No input can be made up for x:0") as caught:
        made_up_inputs(builder.graph, [TensorName("x")], 2, np.random.default_rng(0))
    assert step in caught.value.next_step
