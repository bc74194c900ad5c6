"""Which variables are taken, under which names, in which dtype."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints import Selection, select
from checkpoints.errors import NotFoundError, PlanError, UsageError

EMA = "ExponentialMovingAverage"
VALUES = {
    "net/bias": np.array([1.0, 2.0], np.float32),
    f"net/bias/{EMA}": np.array([0.9, 1.9], np.float32),
    "net/weights": np.array([[1.0]], np.float32),
    f"net/weights/{EMA}": np.array([[0.9]], np.float32),
    f"net/weights/{EMA}/biased": np.array([[0.5]], np.float32),
    f"net/weights/{EMA}/local_step": np.array(3.0, np.float32),
    "net/weights/Adam": np.array([[5.0]], np.float32),
    "net/bn/moving_mean": np.array([0.1], np.float32),
    "beta1_power": np.array(0.9, np.float32),
    "global_step": np.array(7, np.int64),
    "words": np.array([b"a"], object),
    "double": np.array([1e300, -1e300, 1.0]),
}


@pytest.fixture
def saved(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", VALUES)
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        yield opened


def test_everything(saved, heard):
    taken = select(saved, progress=heard)
    assert list(taken.variables.values()) == list(saved.variables.values())
    for name in saved:
        np.testing.assert_array_equal(taken[name], saved[name])
    assert bytes(taken.bytes_of("net/bias")) == VALUES["net/bias"].tobytes()
    assert heard.said == [
        "Weights: raw, as they were trained; there are averages of 2 variables too"
        " (--weights ema takes these instead)."
    ]


def test_nothing_is_said_where_there_is_nothing_to_choose(tmp_path, heard):
    checkpoints.write(tmp_path / "m.ckpt", {"w": np.ones(1)})
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        select(opened, progress=heard)
    assert heard.said == []


def test_raw_weights(saved, heard):
    taken = select(saved, Selection(weights="raw"), progress=heard)
    assert taken["net/weights"].tolist() == [[1.0]]
    assert f"net/weights/{EMA}" in taken
    assert heard.said == []


def test_averages_take_the_place_of_their_variables(saved, heard):
    taken = select(saved, Selection(weights="ema"), progress=heard)
    assert taken["net/weights"] == np.float32(0.9)
    np.testing.assert_array_equal(taken["net/bias"], VALUES[f"net/bias/{EMA}"])
    assert taken["net/bn/moving_mean"] == np.float32(0.1)
    assert not [name for name in taken if EMA in name]
    assert taken.source_of("net/weights") == f"net/weights/{EMA}"
    assert taken.variables["net/weights"].name == "net/weights"
    assert heard.said == [
        "Weights: ema, the averages of 2 variables; 3 have none and keep their own values."
    ]


def test_an_average_without_its_variable_becomes_it(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", {f"a/w/{EMA}": np.array(0.5)})
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        taken = select(opened, Selection(weights="ema"))
        assert dict(taken) == {"a/w": 0.5}


def test_no_averages(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", {"w": np.ones(1)})
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        with pytest.raises(PlanError, match="holds no averages") as caught:
            select(opened, Selection(weights="ema"))
        assert caught.value.next_step == "--weights raw"


def test_averages_of_another_shape(tmp_path):
    values = {"w": np.ones(2, np.float32), f"w/{EMA}": np.ones(3, np.float32)}
    checkpoints.write(tmp_path / "m.ckpt", values)
    with (
        checkpoints.open(tmp_path / "m.ckpt") as opened,
        pytest.raises(PlanError, match=r"float32 \[3\], where w is float32 \[2\]"),
    ):
        select(opened, Selection(weights="ema"))


@pytest.mark.parametrize(
    ("parts", "gone"),
    [
        (("slots",), {"net/weights/Adam", "beta1_power"}),
        (("step",), {"global_step"}),
        (("ema",), {name for name in VALUES if EMA in name}),
        (("step", "slots", "step"), {"net/weights/Adam", "beta1_power", "global_step"}),
    ],
)
def test_parts_are_dropped(saved, heard, parts, gone):
    taken = select(saved, Selection(weights="raw", drop=parts), progress=heard)
    assert set(VALUES) - set(taken) == gone
    assert len(heard.said) == len(set(parts))
    assert heard.said[0].startswith("Dropped: ")


def test_averages_can_be_taken_and_slots_dropped(saved):
    taken = select(saved, Selection(weights="ema", drop=("slots", "ema", "step")))
    assert set(taken) == {"net/bias", "net/weights", "net/bn/moving_mean", "words", "double"}


def test_an_unknown_part(saved):
    with pytest.raises(UsageError, match="no such part") as caught:
        select(saved, Selection(drop=("slot",)))
    assert caught.value.next_step == "--drop slots"


def test_include_and_exclude(saved, heard):
    selection = Selection("raw", include=("^net/", "^glob"), exclude=("Adam$", EMA))
    taken = select(saved, selection, progress=heard)
    assert sorted(taken) == ["global_step", "net/bias", "net/bn/moving_mean", "net/weights"]
    assert heard.said == ["Taken: 4 of 12 variables."]


@pytest.mark.parametrize(
    "selection",
    [
        Selection(include=("^netz/",)),
        Selection(exclude=("netz",)),
        Selection(rename=("s|^nett|x|",)),
    ],
)
def test_what_matches_nothing_is_an_error_with_near_names(saved, selection):
    with pytest.raises(NotFoundError, match="matches none of 12 variables") as caught:
        select(saved, selection)
    assert caught.value.next_step == "Did you mean net, net/bn?"


def test_an_expression_for_what_was_dropped_is_none_too_many(saved):
    taken = select(saved, Selection("raw", drop=("slots",), exclude=("Adam$", EMA)))
    assert "net/weights/Adam" not in taken and "net/weights" in taken


def test_no_regular_expression(saved):
    with pytest.raises(UsageError, match=r"--include '\(' is no regular expression"):
        select(saved, Selection(include=("(",)))


def test_nothing_left(saved):
    with pytest.raises(NotFoundError, match="none of 12 variables is left"):
        select(saved, Selection(include=("^words$",), exclude=("word",)))


def test_renamed_one_after_the_other(saved, heard):
    selection = Selection("raw", include=("^net/b",), rename=("s|^net/|a/|", "s|^a/b|c/b|"))
    taken = select(saved, selection, progress=heard)
    assert sorted(taken) == ["c/bias", f"c/bias/{EMA}", "c/bn/moving_mean"]
    assert taken["c/bias"].tolist() == [1, 2]
    assert taken.variables["c/bias"].name == "c/bias"
    assert heard.said[-1] == "Renamed: 3 of 3 variables."


def test_two_variables_with_one_name_are_refused(saved):
    with pytest.raises(PlanError, match="gives several variables one name") as caught:
        select(saved, Selection(include=("^net/(bias|weights)$",), rename=("s|/.*|/w|",)))
    assert "'net/w': net/bias and net/weights" in caught.value.message
    with pytest.raises(PlanError, match="or one none"):
        select(saved, Selection(include=("^words$",), rename=("s|words||",)))


def test_names_can_be_exchanged_over_a_third(saved):
    rename = ("s|^net/bias$|tmp|", "s|^double$|net/bias|", "s|^tmp$|double|")
    taken = select(saved, Selection(rename=rename))
    assert taken["double"].tolist() == [1, 2]
    assert taken["net/bias"].tolist() == VALUES["double"].tolist()


def test_floats_are_cast_and_nothing_else(saved, heard, same):
    taken = select(saved, Selection("raw", dtype="bfloat16"), progress=heard)
    assert taken.variables["net/bn/moving_mean"].dtype_name == "bfloat16"
    expected = VALUES["net/bn/moving_mean"].astype(ml_dtypes.bfloat16)
    assert same(taken["net/bn/moving_mean"], expected)
    assert bytes(taken.bytes_of("net/bn/moving_mean")) == expected.tobytes()
    assert taken["global_step"].dtype == np.int64
    assert taken["words"].tolist() == [b"a"]
    assert heard.said == [
        "Cast to bfloat16: 10 float variables, batch-norm averages too;"
        " 2 of other dtypes stay as they are."
    ]


def test_what_becomes_infinite_is_counted(saved):
    taken = select(saved, Selection(dtype="float32"))
    assert taken["double"].tolist() == [np.inf, -np.inf, 1.0]
    assert taken["net/bias"].dtype == np.float32
    assert taken.overflows == {"double": 2}


def test_infinities_and_nans_are_no_overflow(tmp_path):
    value = np.array([np.inf, np.nan, 65504.0, 65520.0], np.float32)
    checkpoints.write(tmp_path / "m.ckpt", {"a": value})
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        taken = select(opened, Selection(dtype="float16"))
        np.testing.assert_array_equal(taken["a"], np.array([np.inf, np.nan, 65504, np.inf]))
        assert taken.overflows == {"a": 1}


@pytest.mark.parametrize("dtype", ["float64", "int8", "half"])
def test_other_dtypes(saved, dtype):
    with pytest.raises(UsageError, match="variables do not become that"):
        select(saved, Selection(dtype=dtype))


def test_values_are_read_when_they_are_asked_for(tmp_path):
    checkpoints.write(tmp_path / "m.ckpt", {"a": np.ones(3), "b": np.zeros(3)})
    data = bytearray((tmp_path / "m.ckpt.data-00000-of-00001").read_bytes())
    data[0] ^= 1
    (tmp_path / "m.ckpt.data-00000-of-00001").write_bytes(data)
    with checkpoints.open(tmp_path / "m.ckpt") as opened:
        taken = select(opened, Selection(exclude=("^a$",), dtype="float32"))
        assert taken["b"].tolist() == [0, 0, 0]


def test_a_variable_is_for_the_same_thing_under_another_name(tmp_path):
    values = {
        "w": np.ones((2, 3)),
        "w/Adam": np.ones((2, 3)),
        "w/ExponentialMovingAverage": np.zeros((2, 3)),
        "global_step": np.array(3),
        "flag": np.array([True]),
        "words": np.array([b"a"], object),
    }
    checkpoints.write(tmp_path / "m", values)
    with checkpoints.open(tmp_path / "m") as saved:
        assert saved.count_parameters() == 6 and saved.count_parameters(["words", "w/Adam"]) == 0
        renamed = select(saved, Selection(rename=("s|^|x_|", "s|/|_|g"), exclude=("flag",)))
        assert renamed.role("x_w_Adam") == "slot" and renamed.role("x_global_step") == "step"
        assert renamed.count_parameters() == 6
        averaged = select(saved, Selection(weights="ema"))
        assert averaged.role("w") == "model" and averaged.count_parameters() == 6
