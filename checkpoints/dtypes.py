"""TensorFlow's dtypes: their numbers and names in files, and the numpy dtypes of their values.

Importing this module does not import ml_dtypes; that happens when a dtype numpy lacks is
asked for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from checkpoints.errors import UnsupportedError


@dataclass(frozen=True)
class DType:
    """One dtype of TensorFlow.

    Attributes:
      number: the value of the enum DataType in files.
      name: TensorFlow's name, as in tf.DType.name.
      numpy: the dtype of values in memory, native byte order: object (of bytes) for string;
        for the quantised types a structure of one field, as TensorFlow itself hands them out.
    """

    number: int
    name: str
    numpy: np.dtype[np.generic]

    @property
    def is_string(self) -> bool:
        """Whether values are bytes of any length."""
        return self.number == STRING

    @property
    def is_extended(self) -> bool:
        """Whether numpy has it from ml_dtypes only, so that numpy's own files cannot name it."""
        return self.number in _EXTENDED


STRING = 7
"""The number of the dtype whose values are bytes."""

_PLAIN = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    8: "complex64",
    9: "int64",
    10: "bool",
    17: "uint16",
    18: "complex128",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
_QUANTISED = {
    11: ("qint8", "int8"),
    12: ("quint8", "uint8"),
    13: ("qint32", "int32"),
    15: ("qint16", "int16"),
    16: ("quint16", "uint16"),
}
_EXTENDED = {
    14: "bfloat16",
    24: "float8_e5m2",
    25: "float8_e4m3fn",
    26: "float8_e4m3fnuz",
    27: "float8_e4m3b11fnuz",
    28: "float8_e5m2fnuz",
    29: "int4",
    30: "uint4",
    31: "int2",
    32: "uint2",
    33: "float4_e2m1fn",
}
_VALUELESS = {20: "resource", 21: "variant"}

_NUMBERS = {
    **{name: number for number, name in _PLAIN.items()},
    **{name: number for number, (name, _) in _QUANTISED.items()},
    **{name: number for number, name in _EXTENDED.items()},
    "string": STRING,
}
_FIRST_REFERENCE = 101


@functools.cache
def of_number(number: int) -> DType:
    """The dtype that a file's number means; a reference dtype is its value's.

    Raises:
      UnsupportedError: the number is unknown, or its values are not numbers or strings
        (resource, variant).
    """
    if number >= _FIRST_REFERENCE:
        number -= _FIRST_REFERENCE - 1
    if number in _PLAIN:
        return DType(number, _PLAIN[number], np.dtype(_PLAIN[number]))
    if number == STRING:
        return DType(number, "string", np.dtype(object))
    if number in _QUANTISED:
        name, stored = _QUANTISED[number]
        return DType(number, name, np.dtype([(name, stored)]))
    if number in _EXTENDED:
        return DType(number, _EXTENDED[number], _extended(_EXTENDED[number]))
    raise UnsupportedError(
        f"Values of dtype {name_of_number(number)} cannot be read.",
        expected="numbers, booleans or strings",
        received=f"dtype {number}",
    )


def of_name(name: str) -> DType:
    """The dtype that TensorFlow calls `name`, as in "float32".

    Raises:
      UnsupportedError: there is none of that name, or it holds no values.
    """
    if name not in _NUMBERS:
        raise UnsupportedError(
            f"There is no dtype {name!r}.", expected=", ".join(sorted(_NUMBERS)), received=name
        )
    return of_number(_NUMBERS[name])


def of_numpy(dtype: np.dtype[np.generic]) -> DType:
    """The dtype that keeps values of a numpy dtype; byte order does not matter.

    Bytes, text and object arrays become strings.

    Raises:
      UnsupportedError: TensorFlow has no such dtype.
    """
    if dtype.kind in "OSU":
        return of_number(STRING)
    name = dtype.names[0] if dtype.names is not None and len(dtype.names) == 1 else dtype.name
    number = _NUMBERS.get(name)
    if number is None or of_number(number).numpy != dtype.newbyteorder("="):
        raise UnsupportedError(
            f"TensorFlow has no dtype for numpy's {dtype}.",
            expected=", ".join(sorted(_NUMBERS)),
            received=dtype,
        )
    return of_number(number)


def is_valueless(number: int) -> bool:
    """Whether a file's number means resource or variant, whose values are no numbers or strings."""
    return number in _VALUELESS


def name_of_number(number: int) -> str:
    """TensorFlow's name of a file's number; "dtype 99" for one it does not define."""
    if number in _QUANTISED:
        return _QUANTISED[number][0]
    names = {**_PLAIN, **_EXTENDED, **_VALUELESS, STRING: "string"}
    return names.get(number, f"dtype {number}")


def _extended(name: str) -> np.dtype[np.generic]:
    import ml_dtypes

    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        raise UnsupportedError(
            f"The installed ml_dtypes does not know {name}.", next_step="pip install -U ml-dtypes"
        )
    dtype: np.dtype[np.generic] = np.dtype(scalar)
    return dtype
