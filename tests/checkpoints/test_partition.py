"""Which variable is frozen, trained, restored, initialised, left out; and what is refused."""

from dataclasses import dataclass

import pytest

from checkpoints.errors import PlanError
from checkpoints.partition import make_plan
from checkpoints.plan import Conflict, NetVariable


@dataclass
class Saved:
    shape: tuple[int, ...]
    dtype_name: str = "float32"


def net(classes, *extra):
    return [
        NetVariable("Net/Conv2d_1/weights", (3, 3, 3, 8)),
        NetVariable("Net/Conv2d_1/BatchNorm/beta", (8,)),
        NetVariable("Net/Conv2d_1/BatchNorm/moving_mean", (8,), trainable=False),
        NetVariable("Net/Conv2d_10/weights", (3, 3, 8, 8)),
        NetVariable("Net/AuxLogits/proj/weights", (8, 4)),
        NetVariable("Net/AuxLogits/fc/weights", (4, classes)),
        NetVariable("Net/Logits/weights", (8, classes)),
        NetVariable("Net/Logits/biases", (classes,)),
        *extra,
    ]


def saved(classes, **extra):
    entries = {v.name: Saved(v.shape) for v in net(classes)}
    return {**entries, **extra}


HEADS = ("Net/Logits", "Net/AuxLogits")


def origins(plan):
    return {v.name.removeprefix("Net/"): (v.state, v.origin) for v in plan.variables}


def test_the_head_trains_both_heads_are_initialised_the_rest_is_restored_and_frozen():
    plan = make_plan(
        net(5), saved(10), trainable=["Net/Logits"], exclude=HEADS, checkpoint="m.ckpt"
    )
    plan.require_sound()
    assert origins(plan) == {
        "Conv2d_1/weights": ("frozen", "restored"),
        "Conv2d_1/BatchNorm/beta": ("frozen", "restored"),
        "Conv2d_1/BatchNorm/moving_mean": ("frozen", "restored"),
        "Conv2d_10/weights": ("frozen", "restored"),
        "AuxLogits/proj/weights": ("frozen", "initialised"),
        "AuxLogits/fc/weights": ("frozen", "initialised"),
        "Logits/weights": ("trainable", "initialised"),
        "Logits/biases": ("trainable", "initialised"),
    }
    assert [v.name for v in plan.optimised] == ["Net/Logits/weights", "Net/Logits/biases"]
    assert {(u.name, u.reason) for u in plan.unused} == {
        ("Net/Logits/weights", "class-count"),
        ("Net/Logits/biases", "class-count"),
        ("Net/AuxLogits/fc/weights", "class-count"),
        ("Net/AuxLogits/proj/weights", "excluded-scope"),
    }
    assert plan.totals() == {
        "variables": 8,
        "restored": 4,
        "initialised": 4,
        "frozen": 6,
        "trainable": 2,
        "unused": 4,
        "parameters": 216 + 8 + 8 + 576 + 32 + 20 + 40 + 5,
        "trainable_parameters": 45,
        "initialised_parameters": 97,
    }


def test_averages_of_a_trainable_scope_change_but_the_optimiser_does_not_get_them():
    plan = make_plan(net(5), saved(5), trainable=["Net/Conv2d_1"])
    assert origins(plan)["Conv2d_1/BatchNorm/moving_mean"] == ("trainable", "restored")
    assert origins(plan)["Conv2d_10/weights"] == ("frozen", "restored")
    assert [v.name for v in plan.optimised] == [
        "Net/Conv2d_1/weights",
        "Net/Conv2d_1/BatchNorm/beta",
    ]


def test_a_head_of_another_size_is_refused_with_every_conflict_and_the_list_that_solves_it():
    plan = make_plan(net(5), saved(10), trainable=["Net/Logits"], checkpoint="m.ckpt")
    assert plan.conflicts[0] == Conflict(
        "Net/AuxLogits/fc/weights", (4, 10), (4, 5), "float32", "float32"
    )
    with pytest.raises(PlanError) as caught:
        plan.require_sound()
    assert caught.value.message == (
        "3 variables of m.ckpt with another shape or dtype in the net:\n"
        "  Net/AuxLogits/fc/weights: checkpoint [4, 10], net [4, 5]\n"
        "  Net/Logits/weights: checkpoint [8, 10], net [8, 5]\n"
        "  Net/Logits/biases: checkpoint [10], net [5]"
    )
    exclude = "Net/AuxLogits/fc,Net/Logits"
    assert caught.value.next_step == f"--exclude {exclude} initialises them instead."
    solved = make_plan(
        net(5), saved(10), trainable=["Net/Logits"], exclude=exclude.split(","), checkpoint="m.ckpt"
    )
    solved.require_sound()


def test_with_one_of_two_heads_excluded_the_other_one_is_named():
    plan = make_plan(
        net(5), saved(10), trainable=["Net/Logits"], exclude=["Net/Logits"], checkpoint="m.ckpt"
    )
    with pytest.raises(
        PlanError, match=r"Net/AuxLogits/fc/weights: checkpoint \[4, 10\]"
    ) as caught:
        plan.require_sound()
    assert caught.value.next_step.startswith("--exclude Net/Logits,Net/AuxLogits/fc ")


def test_heads_of_the_same_size_can_be_restored_and_the_plan_says_so():
    plan = make_plan(net(10), saved(10), trainable=HEADS[:1], exclude=HEADS, head_scopes=HEADS)
    assert any("--exclude none would restore" in note for note in plan.notes)
    other = make_plan(net(5), saved(10), trainable=HEADS[:1], exclude=HEADS, head_scopes=HEADS)
    assert other.notes == ()
    restored = make_plan(net(10), saved(10), trainable=HEADS[:1], head_scopes=HEADS)
    assert len(restored.restored) == 8


def test_a_net_without_the_normaliser_is_told_so():
    bare = [
        NetVariable("body/weights", (3, 3, 1, 4)),
        NetVariable("body/biases", (4,)),
        NetVariable("head/weights", (4, 2)),
    ]
    with_norm = {
        "body/weights": Saved((3, 3, 1, 4)),
        "body/BatchNorm/beta": Saved((4,)),
        "body/BatchNorm/moving_mean": Saved((4,)),
        "body/BatchNorm/moving_variance": Saved((4,)),
        "head/weights": Saved((4, 2)),
    }
    with pytest.raises(PlanError) as caught:
        make_plan(bare, with_norm, trainable=["head"], checkpoint="m.ckpt").require_sound()
    assert caught.value.message == "m.ckpt lacks 1 variable of the net:\n  body/biases [4]"
    assert "the net was built without the normaliser" in caught.value.received
    assert "--allow-missing" in caught.value.next_step


def test_excused_variables_start_at_random_and_their_share_is_reported():
    variables = net(5, NetVariable("Net/New/weights", (807,)))
    plan = make_plan(
        variables, saved(5), trainable=["Net/Logits"], allow_missing=r"Net/New/.*", checkpoint="m"
    )
    plan.require_sound()
    assert plan.notes[0] == (
        "1 variable missing from the checkpoint, started at random: 807 parameters, 47.1% of the net."
    )
    with pytest.raises(PlanError, match="no regular expression"):
        make_plan(variables, saved(5), trainable=["Net/Logits"], allow_missing="(")


def test_bookkeeping_may_be_absent_on_either_side():
    slots = [
        NetVariable("global_step", (), "int64", trainable=False),
        NetVariable("Net/Logits/weights/Adam", (8, 5), trainable=False),
        NetVariable("beta1_power", (), trainable=False),
    ]
    without = make_plan(net(5, *slots), saved(5), trainable=["Net/Logits"])
    without.require_sound()
    assert [v.name for v in without.initialised] == [v.name for v in slots]
    extra = {"global_step": Saved((), "int64"), "Net/Logits/weights/Momentum": Saved((8, 5))}
    with_slots = make_plan(net(5), saved(5, **extra), trainable=["Net/Logits"])
    with_slots.require_sound()
    assert [u.reason for u in with_slots.unused] == ["not-in-net", "not-in-net"]


def test_floats_are_converted_other_dtypes_are_not():
    half = {name: Saved(entry.shape, "float16") for name, entry in saved(5).items()}
    make_plan(net(5), half, trainable=["Net/Logits"]).require_sound()
    whole = saved(5, **{"Net/Logits/biases": Saved((5,), "int32")})
    with pytest.raises(PlanError, match="biases: checkpoint int32, net float32"):
        make_plan(net(5), whole, trainable=["Net/Logits"], checkpoint="m").require_sound()


def test_without_a_checkpoint_everything_is_initialised():
    plan = make_plan(net(5), None, trainable=["Net/Logits"])
    plan.require_sound()
    assert len(plan.initialised) == 8
    assert plan.unused == ()


def test_a_frozen_variable_that_stays_at_random_is_worth_a_note():
    plan = make_plan(
        net(5), saved(5), trainable=HEADS[:1], exclude=[*HEADS, "Net/Conv2d_10"], head_scopes=HEADS
    )
    assert any("Net/Conv2d_10/weights" in note and "random" in note for note in plan.notes)


def test_a_scope_that_exists_only_in_the_checkpoint_may_be_excluded():
    extra = {"Net/Old/weights": Saved((3,))}
    plan = make_plan(net(5), saved(5, **extra), trainable=["Net/Logits"], exclude=["Net/Old"])
    assert [(u.name, u.reason) for u in plan.unused] == [("Net/Old/weights", "excluded-scope")]
    with pytest.raises(PlanError, match="--exclude names a scope without a variable"):
        make_plan(net(5), saved(5), trainable=["Net/Logits"], exclude=["Net/Old"])


def test_the_plan_as_json_has_every_variable_and_both_shapes_of_a_conflict():
    value = make_plan(net(5), saved(10), trainable=["Net/Logits"], checkpoint="m.ckpt").as_json()
    assert value["variables"][0] == {
        "name": "Net/Conv2d_1/weights",
        "shape": [3, 3, 3, 8],
        "dtype": "float32",
        "state": "frozen",
        "origin": "restored",
        "optimised": False,
        "reason": "",
    }
    assert value["conflicts"][1] == {
        "name": "Net/Logits/weights",
        "checkpoint_shape": [8, 10],
        "net_shape": [8, 5],
        "checkpoint_dtype": "float32",
        "net_dtype": "float32",
    }
