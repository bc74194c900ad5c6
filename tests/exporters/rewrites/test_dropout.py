"""Dropout is taken out in every form in which it was written; what only resembles it stays."""

from __future__ import annotations

import numpy as np
import pytest

from exporters.names import TensorName
from exporters.rewrites.draft import Draft
from exporters.rewrites.dropout import remove_dropout
from exporters.rewrites.prune import prune

FLOAT = np.dtype("float32")
BOOL = np.dtype("bool")
OUT = (TensorName("out"),)


@pytest.fixture
def noisy(builder):
    """x [?, 4], its noise in [0, 1), and how much is kept: 0.75 as a constant or a placeholder."""
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 4))
    builder.add("Shape", "shape", "x", T=FLOAT)
    builder.add("RandomUniform", "noise", "shape", dtype=FLOAT, T=np.dtype("int32"))
    builder.const("zero", np.float32(0))
    builder.const("one", np.float32(1))
    builder.const("keep", np.float32(0.75))
    builder.const("rate", np.float32(0.25))
    builder.const("scale", np.float32(1 / 0.75))
    builder.add("Placeholder", "keep_fed", dtype=FLOAT)
    builder.add("Placeholder", "rate_fed", dtype=FLOAT, shape=())
    return builder


def remaining(builder) -> set[str]:
    """The nodes that the output still needs, dropout taken out."""
    pruned = prune(builder.graph, OUT).graph
    draft = remove_dropout(Draft(pruned, OUT))
    return set(prune(draft.graph, OUT).graph.nodes)


def floor_mask(builder, keep: str) -> None:
    """TensorFlow 0.5 to 1.12: floor(keep + (noise * (1 - 0) + 0))."""
    builder.add("Sub", "noise/sub", "one", "zero", T=FLOAT)
    builder.add("Mul", "noise/mul", "noise", "noise/sub", T=FLOAT)
    builder.add("Add", "noise/add", "noise/mul", "zero", T=FLOAT)
    builder.add("Add", "sum", keep, "noise/add", T=FLOAT)
    builder.add("Floor", "mask", "sum", T=FLOAT)


def cast_mask(builder, rate: str) -> None:
    """TensorFlow 1.13 to 2.11: noise >= rate, as a number."""
    builder.add("GreaterEqual", "kept", "noise", rate, T=FLOAT)
    builder.add("Cast", "mask", "kept", SrcT=BOOL, DstT=FLOAT)


@pytest.mark.parametrize("keep", ["keep", "keep_fed"])
def test_divided_and_floored(noisy, keep):
    floor_mask(noisy, keep)
    noisy.add("RealDiv", "scaled", "x", keep, T=FLOAT)
    noisy.add("Mul", "dropped", "scaled", "mask", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_multiplied_by_the_inverse_and_floored(noisy):
    floor_mask(noisy, "keep_fed")
    noisy.add("Inv", "inverse", "keep_fed", T=FLOAT)
    noisy.add("Mul", "scaled", "x", "inverse", T=FLOAT)
    noisy.add("Mul", "dropped", "mask", "scaled", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


@pytest.mark.parametrize("rate", ["rate", "rate_fed"])
def test_compared_and_cast(noisy, rate):
    cast_mask(noisy, rate)
    noisy.add("Sub", "share", "one", rate, T=FLOAT)
    noisy.add("RealDiv", "factor", "one", "share", T=FLOAT)
    noisy.add("Mul", "scaled", "x", "factor", T=FLOAT)
    noisy.add("Mul", "dropped", "scaled", "mask", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_chosen(noisy):
    noisy.add("GreaterEqual", "kept", "noise", "rate", T=FLOAT)
    noisy.add("Mul", "scaled", "x", "scale", T=FLOAT)
    noisy.add("SelectV2", "dropped", "kept", "scaled", "zero", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_chosen_the_other_way_round(noisy):
    noisy.add("Less", "lost", "noise", "rate", T=FLOAT)
    noisy.add("ZerosLike", "zeros", "x", T=FLOAT)
    noisy.add("Mul", "scaled", "x", "scale", T=FLOAT)
    noisy.add("Select", "dropped", "lost", "zeros", "scaled", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_scaled_behind_the_mask(noisy):
    cast_mask(noisy, "rate")
    noisy.add("Mul", "masked", "x", "mask", T=FLOAT)
    noisy.add("RealDiv", "dropped", "masked", "keep", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_a_mask_that_is_scaled_itself(noisy):
    cast_mask(noisy, "rate")
    noisy.add("Mul", "factors", "mask", "scale", T=FLOAT)
    noisy.add("Mul", "dropped", "x", "factors", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}
    assert not remove_dropout(Draft(prune(noisy.graph, OUT).graph, OUT)).is_faithful


def test_a_factor_of_the_net_itself_stays(noisy):
    noisy.const("two", np.float32(2))
    noisy.add("Mul", "doubled", "x", "two", T=FLOAT)
    noisy.add("GreaterEqual", "kept", "noise", "rate", T=FLOAT)
    noisy.add("Mul", "scaled", "doubled", "scale", T=FLOAT)
    noisy.add("SelectV2", "dropped", "kept", "scaled", "zero", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "two", "doubled", "out"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_noise_of_few_digits(builder, dtype):
    import ml_dtypes

    small = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    builder.add("Placeholder", "x", dtype=small, shape=(None, 4))
    builder.add("Shape", "shape", "x", T=small)
    builder.add("RandomUniform", "noise", "shape", dtype=small, T=np.dtype("int32"))
    builder.const("keep", np.array(0.4, small))
    builder.add("Add", "sum", "keep", "noise", T=small)
    builder.add("Floor", "mask", "sum", T=small)
    builder.add("RealDiv", "scaled", "x", "keep", T=small)
    builder.add("Mul", "dropped", "scaled", "mask", T=small)
    builder.add("Identity", "out", "dropped", T=small)
    assert remaining(builder) == {"x", "out"}


@pytest.mark.parametrize("op", ["StatelessRandomUniform", "StatelessRandomUniformV2"])
def test_noise_without_state(noisy, op):
    noisy.add(op, "seeded", "shape", "seed", dtype=FLOAT)
    noisy.const("seed", np.array([1, 2], np.int64))
    noisy.add("GreaterEqual", "kept", "seeded", "rate", T=FLOAT)
    noisy.add("Mul", "scaled", "x", "scale", T=FLOAT)
    noisy.add("SelectV2", "dropped", "kept", "scaled", "zero", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert remaining(noisy) == {"x", "out"}


def test_the_output_itself_may_be_a_dropout(noisy):
    floor_mask(noisy, "keep")
    noisy.add("RealDiv", "scaled", "x", "keep", T=FLOAT)
    noisy.add("Mul", "out", "scaled", "mask", T=FLOAT)
    draft = remove_dropout(Draft(prune(noisy.graph, OUT).graph, OUT))
    out = draft.graph.nodes["out"]
    assert (out.op, list(out.input), out.attr["T"].type) == ("Identity", ["x"], 1)
    assert draft.said == ("1 dropout taken out.",)
    assert not draft.is_faithful


def test_a_dropout_that_keeps_everything_leaves_the_answers_as_they_were(noisy):
    floor_mask(noisy, "one")
    noisy.add("RealDiv", "scaled", "x", "one", T=FLOAT)
    noisy.add("Mul", "out", "scaled", "mask", T=FLOAT)
    draft = remove_dropout(Draft(prune(noisy.graph, OUT).graph, OUT))
    assert draft.said and draft.is_faithful


def test_a_mask_without_scale_changes_the_mean_and_stays(noisy):
    cast_mask(noisy, "rate")
    noisy.add("Mul", "dropped", "x", "mask", T=FLOAT)
    noisy.add("Relu", "out", "dropped", T=FLOAT)
    assert "noise" in remaining(noisy)


def test_a_scale_of_another_share_stays(noisy):
    cast_mask(noisy, "keep")
    noisy.add("RealDiv", "scaled", "x", "keep", T=FLOAT)
    noisy.add("Mul", "out", "scaled", "mask", T=FLOAT)
    assert "noise" in remaining(noisy)


def test_noise_that_is_added_or_multiplied_stays(noisy):
    noisy.add("Mul", "scaled", "x", "noise", T=FLOAT)
    noisy.add("Add", "out", "scaled", "noise", T=FLOAT)
    assert {"noise", "scaled", "out"} <= remaining(noisy)


def test_a_choice_between_two_branches_stays(noisy):
    noisy.add("GreaterEqual", "kept", "noise", "rate", T=FLOAT)
    noisy.add("SelectV2", "out", "kept", "x", "one", T=FLOAT)
    assert "noise" in remaining(noisy)


def test_normal_noise_is_no_dropout(noisy):
    noisy.graph_def.node[2].op = "RandomStandardNormal"
    cast_mask(noisy, "rate")
    noisy.add("Mul", "scaled", "x", "scale", T=FLOAT)
    noisy.add("Mul", "out", "scaled", "mask", T=FLOAT)
    assert "noise" in remaining(noisy)


def test_a_graph_without_noise_is_left_alone(dense_net):
    draft = Draft(dense_net.graph, (TensorName("probs"),))
    assert remove_dropout(draft) is draft
