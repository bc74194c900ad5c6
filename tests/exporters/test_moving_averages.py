"""Which variable keeps whose moving average, in every way in which updates are written."""

from __future__ import annotations

import numpy as np
import pytest

from exporters.moving_averages import MovingAverages, variable_behind
from exporters.names import TensorName

FLOAT = np.dtype("float32")
MEAN = TensorName("mean")


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def averaging(builder, request):
    """A mean of the batch, a variable of its shape, and scalars; the variable's read is `read`."""
    builder.resource = request.param
    builder.add("Placeholder", "x", dtype=FLOAT, shape=(None, 3))
    builder.const("axes", np.array([0], np.int32))
    builder.add("Mean", "mean", "x", "axes", T=FLOAT)
    builder.read = builder.variable("average", np.zeros(3, np.float32), request.param)
    builder.const("tenth", np.float32(0.1))
    builder.const("rest", np.float32(0.9))
    builder.const("one", np.float32(1))
    builder.add("Placeholder", "decay", dtype=FLOAT, shape=())
    return builder


def assign(builder, kind: str, value: str, variable: str = "average", name: str = "update") -> str:
    op = f"Assign{kind}VariableOp" if builder.resource else f"Assign{kind}"
    return builder.add(op, name, variable, value, dtype=FLOAT)


def found(builder) -> str | None:
    return MovingAverages(builder.graph).of(MEAN)


@pytest.mark.parametrize("decay", ["tenth", "decay"])
@pytest.mark.parametrize("kind", ["Sub", "Add"])
def test_a_step_towards_the_mean(averaging, kind, decay):
    first, second = (averaging.read, "mean") if kind == "Sub" else ("mean", averaging.read)
    averaging.add("Sub", "difference", first, second, T=FLOAT)
    averaging.add("Mul", "step", "difference", decay, T=FLOAT)
    assign(averaging, kind, "step")
    assert found(averaging) == "average"


def test_a_step_in_the_wrong_direction_is_no_average(averaging):
    averaging.add("Sub", "difference", "mean", averaging.read, T=FLOAT)
    averaging.add("Mul", "step", "difference", "tenth", T=FLOAT)
    assign(averaging, "Sub", "step")
    assert found(averaging) is None


def test_two_shares(averaging):
    averaging.add("Mul", "old", averaging.read, "rest", T=FLOAT)
    averaging.add("Mul", "new", "tenth", "mean", T=FLOAT)
    averaging.add("AddV2", "sum", "old", "new", T=FLOAT)
    assign(averaging, "", "sum")
    assert found(averaging) == "average"


def test_shares_that_do_not_add_up_are_no_average(averaging):
    averaging.add("Mul", "old", averaging.read, "rest", T=FLOAT)
    averaging.add("AddV2", "sum", "old", "mean", T=FLOAT)
    assign(averaging, "", "sum")
    assert found(averaging) is None


def test_the_new_value_itself(averaging):
    averaging.add("Identity", "same", "mean", T=FLOAT)
    assign(averaging, "", "same")
    assert found(averaging) == "average"


def test_a_mean_that_is_cast_and_corrected(averaging):
    averaging.add("Placeholder", "bessel", dtype=FLOAT, shape=())
    averaging.add("Cast", "cast", "mean", SrcT=FLOAT, DstT=FLOAT)
    averaging.add("Mul", "corrected", "cast", "bessel", T=FLOAT)
    averaging.add("Sub", "difference", averaging.read, "corrected", T=FLOAT)
    averaging.add("Mul", "step", "difference", "tenth", T=FLOAT)
    assign(averaging, "Sub", "step")
    assert found(averaging) == "average"


def test_a_step_that_is_left_out_for_an_empty_batch(averaging):
    averaging.add("Placeholder", "some", dtype=np.dtype("bool"), shape=())
    averaging.add("Sub", "difference", averaging.read, "mean", T=FLOAT)
    averaging.add("Mul", "step", "difference", "tenth", T=FLOAT)
    averaging.add("ZerosLike", "zeros", "step", T=FLOAT)
    averaging.add("SelectV2", "chosen", "some", "step", "zeros", T=FLOAT)
    assign(averaging, "Sub", "chosen")
    assert found(averaging) == "average"


@pytest.mark.parametrize("old", [False, True], ids=["assigned", "subtracted"])
def test_a_zero_that_is_taken_out(averaging, old):
    """zero_debias: `biased` is the average; the variable gets it divided by what it lacks."""
    biased = averaging.variable("biased", np.zeros(3, np.float32), averaging.resource)
    steps = averaging.variable("steps", np.float32(0), averaging.resource)
    averaging.add("Sub", "difference", biased, "mean", T=FLOAT)
    averaging.add("Mul", "step", "difference", "tenth", T=FLOAT)
    done = assign(averaging, "Sub", "step", "biased", "update_biased")
    counted = assign(averaging, "Add", "one", "steps", "count")
    if averaging.resource:
        done = averaging.add("ReadVariableOp", "read_biased", "biased", f"^{done}", dtype=FLOAT)
        counted = averaging.add("ReadVariableOp", "read_steps", "steps", f"^{counted}", dtype=FLOAT)
    averaging.add("Pow", "power", "rest", counted, T=FLOAT)
    averaging.add("Sub", "lack", "one", "power", T=FLOAT)
    averaging.add("RealDiv", "quotient", done, "lack", T=FLOAT)
    if old:
        averaging.add("Sub", "delta", averaging.read, "quotient", T=FLOAT)
        assign(averaging, "Sub", "delta")
    else:
        assign(averaging, "", "quotient")
    assert steps
    assert found(averaging) == "average"


def test_an_average_of_weights_is_none_of_the_batch(averaging):
    weights = averaging.variable("weights", np.zeros(3, np.float32), averaging.resource)
    averaging.add("Sub", "difference", averaging.read, weights, T=FLOAT)
    averaging.add("Mul", "step", "difference", "tenth", T=FLOAT)
    assign(averaging, "Sub", "step")
    assert MovingAverages(averaging.graph).averaged == {}


def test_two_averages_of_one_mean_are_not_chosen_between(averaging):
    other = averaging.variable("other", np.zeros(3, np.float32), averaging.resource)
    for variable, read in (("average", averaging.read), ("other", other)):
        averaging.add("Sub", f"{variable}/difference", read, "mean", T=FLOAT)
        averaging.add("Mul", f"{variable}/step", f"{variable}/difference", "tenth", T=FLOAT)
        assign(averaging, "Sub", f"{variable}/step", variable, f"{variable}/update")
    assert found(averaging) is None


def test_initial_values_and_restored_ones_are_no_averages_of_the_batch(averaging):
    averaging.const("zeros", np.zeros(3, np.float32))
    assign(averaging, "", "zeros")
    assert found(averaging) is None


def test_broken_assignments_are_passed_over(averaging):
    averaging.add("AssignSub", "alone", "average")
    averaging.add("AssignSub", "itself", "itself", "itself")
    averaging.add("Identity", "round", "around", T=FLOAT)
    averaging.add("Identity", "around", "round", T=FLOAT)
    averaging.add("Assign", "circle", "average", "round")
    averaging.add("Assign", "gone", "average", "not there")
    assert found(averaging) is None


def test_the_variable_behind_a_tensor(averaging):
    averaging.add("Switch", "switched", averaging.read, "flag", T=FLOAT)
    graph = averaging.graph
    assert variable_behind(graph, TensorName("switched", 1)) == "average"
    assert variable_behind(graph, TensorName("average")) == "average"
    assert variable_behind(graph, MEAN) is None
