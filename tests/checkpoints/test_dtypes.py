from __future__ import annotations

import numpy as np
import pytest

from checkpoints import dtypes
from checkpoints.errors import UnsupportedError


@pytest.mark.tensorflow
def test_numbers_names_and_numpy_dtypes_are_tensorflows(tensorflow):
    from tensorflow.core.framework import types_pb2

    numbers = [number for number in types_pb2.DataType.values() if 0 < number < 100]
    assert numbers
    for number in numbers:
        theirs = tensorflow.as_dtype(number)
        assert dtypes.name_of_number(number) == theirs.name
        if theirs.name in ("resource", "variant"):
            with pytest.raises(UnsupportedError, match=f"dtype {theirs.name} cannot be read"):
                dtypes.of_number(number)
            continue
        ours = dtypes.of_number(number)
        assert (ours.number, ours.name) == (number, theirs.name)
        assert ours.numpy == np.dtype(theirs.as_numpy_dtype)
        assert dtypes.of_name(theirs.name) == ours
        assert dtypes.of_numpy(ours.numpy) == ours
        assert dtypes.of_number(number + 100) == ours


@pytest.mark.parametrize(
    ("numpy_dtype", "name"),
    [(">f4", "float32"), ("<i8", "int64"), ("S5", "string"), ("U5", "string"), ("O", "string")],
)
def test_byte_order_and_length_of_text_do_not_matter(numpy_dtype, name):
    assert dtypes.of_numpy(np.dtype(numpy_dtype)).name == name


@pytest.mark.parametrize(
    "numpy_dtype", ["datetime64[s]", "longdouble", "V3", [("qint8", "i2")], [("x", "i1")]]
)
def test_a_dtype_tensorflow_lacks_is_refused(numpy_dtype):
    with pytest.raises(UnsupportedError, match="TensorFlow has no dtype for numpy's"):
        dtypes.of_numpy(np.dtype(numpy_dtype))


def test_unknown_names_and_numbers_are_refused():
    with pytest.raises(UnsupportedError, match="There is no dtype 'float'"):
        dtypes.of_name("float")
    with pytest.raises(UnsupportedError, match="Values of dtype dtype 77 cannot be read"):
        dtypes.of_number(77)
