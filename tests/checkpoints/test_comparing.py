"""What differs between two checkpoints."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import checkpoints
from checkpoints.differences import compare_arrays
from checkpoints.errors import NotFoundError, UnsupportedError, UsageError

FORMS = {"v1": "m", "v2": "m.ckpt", "npz": "m.npz", "safetensors": "m.safetensors"}
VALUES = {
    "a/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b/kernel": -np.arange(12, dtype=np.float32).reshape(3, 4),
    "c": np.array([1.0, np.nan, np.inf], np.float32),
    "step": np.array(7, np.int64),
}


@pytest.fixture
def write(tmp_path):
    def write_values(name, values, **options):
        return checkpoints.write(tmp_path / name, values, **options).prefix

    return write_values


def changed(**changes):
    values = {name: value.copy() for name, value in VALUES.items()}
    return values | changes


@pytest.mark.parametrize("form", FORMS)
def test_the_same_variables_in_any_forms(tmp_path, form):
    checkpoints.write(tmp_path / "a.ckpt", VALUES)
    checkpoints.write(tmp_path / FORMS[form], VALUES, version=form)
    found = checkpoints.diff(tmp_path / "a.ckpt", tmp_path / FORMS[form])
    assert found.is_equal and found.num_same == 4
    assert found.as_json() == {
        "a": str(tmp_path / "a.ckpt"),
        "b": str(tmp_path / FORMS[form]),
        "equal": True,
        "same": 4,
        "only_in_a": [],
        "only_in_b": [],
        "different_headers": [],
        "different_values": [],
    }


def test_three_faults_get_three_verdicts(write):
    """One value changed by 1e-3, one by NaN, two kernels swapped."""
    original = write("a.ckpt", VALUES)
    by_little, to_nan = changed(), changed()
    by_little["a/kernel"][1, 2] += 1e-3
    to_nan["a/kernel"][1, 2] = np.nan
    swapped = changed(**{"a/kernel": VALUES["b/kernel"], "b/kernel": VALUES["a/kernel"]})

    (value,) = checkpoints.diff(original, write("b.ckpt", by_little)).values
    assert (value.name, value.verdict) == ("a/kernel", "values")
    assert value.figures.num_different == 1 and value.figures.first == 6
    assert value.figures.max_abs == pytest.approx(1e-3, rel=1e-3)
    assert value.figures.max_rel == pytest.approx(1e-3 / 6, rel=1e-3)

    (nan,) = checkpoints.diff(original, write("c.ckpt", to_nan)).values
    assert (nan.name, nan.verdict) == ("a/kernel", "nan")
    assert (nan.figures.num_nan, nan.figures.num_different, nan.figures.max_abs) == (1, 1, 0)

    first, second = checkpoints.diff(original, write("d.ckpt", swapped)).values
    assert (first.verdict, first.swapped_with) == ("swapped", "b/kernel")
    assert (second.verdict, second.swapped_with) == ("swapped", "a/kernel")
    assert first.as_json()["swapped_with"] == "b/kernel"


def test_a_value_copied_from_another_variable_is_no_swap(write):
    found = checkpoints.diff(
        write("a.ckpt", VALUES), write("b.ckpt", changed(**{"a/kernel": VALUES["b/kernel"]}))
    )
    assert [(d.name, d.verdict) for d in found.values] == [("a/kernel", "values")]


def test_strings_that_were_swapped(write):
    words = {"a": np.array([b"x", b"yz"], object), "b": np.array([b"xy", b"z"], object)}
    found = checkpoints.diff(
        write("a.ckpt", words), write("b.ckpt", {"a": words["b"], "b": words["a"]})
    )
    assert [d.verdict for d in found.values] == ["swapped", "swapped"]
    assert found.values[0].figures.num_different == 2


def test_three_the_same_in_pairs_are_paired_once(write):
    ones, twos = np.ones(2), np.full(2, 2.0)
    found = checkpoints.diff(
        write("a.ckpt", {"a": ones, "b": ones, "c": twos}),
        write("b.ckpt", {"a": twos, "b": twos, "c": ones}),
    )
    assert [(d.name, d.verdict, d.swapped_with) for d in found.values] == [
        ("a", "swapped", "c"),
        ("b", "values", None),
        ("c", "swapped", "a"),
    ]


def test_names_dtypes_and_shapes(write):
    other = changed(**{"a/kernel": np.zeros((4, 3), np.float32), "new": np.ones(2)})
    other["b/kernel"] = other["b/kernel"].astype(ml_dtypes.bfloat16) + ml_dtypes.bfloat16(1)
    del other["step"]
    found = checkpoints.diff(write("a.ckpt", VALUES), write("b.ckpt", other))
    assert not found.is_equal and found.num_same == 1
    result = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert result["only_in_a"] == [{"name": "step", "dtype": "int64", "shape": []}]
    assert result["only_in_b"] == [{"name": "new", "dtype": "float64", "shape": [2]}]
    shapes, dtypes = result["different_headers"]
    assert shapes == {
        "name": "a/kernel",
        "dtype": ["float32", "float32"],
        "shape": [[3, 4], [4, 3]],
    }
    assert (dtypes["name"], dtypes["dtype"]) == ("b/kernel", ["float32", "bfloat16"])
    assert (dtypes["max_abs"], dtypes["num_different"]) == (1, 12)


def test_tolerances(write):
    by_little = changed()
    by_little["a/kernel"][1, 2] *= 1.001
    first, second = write("a.ckpt", VALUES), write("b.ckpt", by_little)
    assert not checkpoints.diff(first, second).is_equal
    assert not checkpoints.diff(first, second, rtol=0.9e-3).is_equal
    assert checkpoints.diff(first, second, rtol=1.1e-3).is_equal
    assert checkpoints.diff(first, second, atol=6.1e-3).is_equal
    for tolerances in ({"rtol": -1}, {"atol": np.nan}):
        with pytest.raises(UsageError, match="from 0 on"):
            checkpoints.diff(first, second, **tolerances)


def test_a_damaged_value_is_a_difference_and_the_rest_is_compared(write):
    first = write("a.ckpt", VALUES)
    second = write("b.ckpt", VALUES)
    data = second.with_name("b.ckpt.data-00000-of-00001")
    content = bytearray(data.read_bytes())
    content[5] ^= 1
    data.write_bytes(content)
    found = checkpoints.diff(first, second)
    (value,) = found.values
    assert (value.name, value.verdict, found.num_same) == ("a/kernel", "unreadable", 3)
    assert "checksum" in value.detail


def test_open_checkpoints_and_selections_are_compared_too(write):
    path = write("a.ckpt", VALUES)
    with checkpoints.open(path) as saved:
        taken = checkpoints.select(saved, checkpoints.Selection(rename=("s|^|x/|",)))
        found = checkpoints.diff(saved, taken)
    assert len(found.only_in_a) == len(found.only_in_b) == 4


def test_no_checkpoints(tmp_path, write):
    path = write("a.ckpt", VALUES)
    with pytest.raises(NotFoundError):
        checkpoints.diff(path, tmp_path / "none.ckpt")
    (tmp_path / "m.pb").write_bytes(b"\x0a\x05\x0a\x01a\x12\x00")
    with pytest.raises(UnsupportedError, match="is no checkpoint") as caught:
        checkpoints.diff(path, tmp_path / "m.pb")
    assert caught.value.received == "a graph (GraphDef or MetaGraphDef)"


NAN, INF = np.nan, np.inf
FIGURES = [
    # a, b, num_different, max_abs, max_rel, num_nan, num_infinite
    ([1, 2.5], [1, 2], 1, 0.5, 0.25, 0, 0),
    ([NAN, INF, -INF], [NAN, INF, -INF], 0, None, None, 0, 0),
    ([NAN, 1.0], [1.0, NAN], 2, None, None, 2, 0),
    ([INF, 1.0, INF], [-INF, INF, NAN], 3, None, None, 1, 2),
    ([0.0], [-0.0], 0, 0.0, None, 0, 0),
    ([1.0], [0.0], 1, 1.0, None, 0, 0),
    ([], [], 0, None, None, 0, 0),
]


@pytest.mark.parametrize(("a", "b", "different", "max_abs", "max_rel", "nan", "inf"), FIGURES)
@pytest.mark.parametrize("dtype", ["float64", "float16", ml_dtypes.bfloat16, np.complex64])
def test_figures(dtype, a, b, different, max_abs, max_rel, nan, inf):
    found = compare_arrays(np.array(a).astype(dtype), np.array(b).astype(dtype))
    assert (found.num_elements, found.num_different) == (len(a), different)
    assert (found.max_abs, found.max_rel) == (max_abs, max_rel)
    assert (found.num_nan, found.num_infinite) == (nan, inf)


@pytest.mark.parametrize(
    ("a", "b", "max_abs"),
    [
        (np.array([2**63 - 1]), np.array([-(2**63)]), 2.0**64),
        (np.array([2**62 + 1]), np.array([2**62]), 1.0),
        (np.array([0], np.uint8), np.array([255], np.uint8), 255.0),
        (np.array([0], np.uint64), np.array([2**64 - 1], np.uint64), 2.0**64),
        (np.array([True]), np.array([False]), 1.0),
        (np.array([(-3,)], [("qint8", "i1")]), np.array([(3,)], [("qint8", "i1")]), 6.0),
        (np.array([1e308]), np.array([-1e308]), np.finfo(np.float64).max),
        (np.array([7]).astype(ml_dtypes.int4), np.array([-8]).astype(ml_dtypes.int4), 15.0),
        (np.array(1 + 1j), np.array(1 - 1j), 2.0),
    ],
)
def test_distances(a, b, max_abs):
    assert compare_arrays(a, b).max_abs == max_abs
    assert compare_arrays(b, a).num_different == 1


def test_large_arrays_are_looked_at_in_pieces():
    a = np.zeros(700_000, np.float32)
    b = a.copy()
    b[600_000] = 3
    b[650_000] = -4
    found = compare_arrays(a, b)
    assert (found.num_different, found.max_abs, found.first) == (2, 4, 600_000)


def test_arrays_in_fortrans_order():
    a = np.arange(6.0).reshape(2, 3)
    assert compare_arrays(a, np.asfortranarray(a)).num_different == 0


def test_numbers_farther_apart_than_a_float_can_say():
    largest = np.finfo(np.float64).max
    figures = compare_arrays(np.array([largest, 1.0]), np.array([-largest, 2.0]))
    assert (figures.max_abs, figures.max_rel) == (largest, 2.0)
    assert figures.num_different == 2 and not figures.num_infinite
