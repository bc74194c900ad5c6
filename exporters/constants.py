"""The values that Const nodes hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from checkpoints import dtypes
from checkpoints.errors import BrokenFileError, GraphError
from checkpoints.messages import NodeDef, TensorProto
from checkpoints.tensors import from_little_endian, read_shape

Array = npt.NDArray[Any]

_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "bool": "bool_val",
    "string": "string_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
    "float16": "half_val",
    "bfloat16": "half_val",
}
_INTEGERS = "int_val"
_MAX_FILLED_ELEMENTS = 1 << 28


def constant_value(node: NodeDef) -> Array:
    """The value of a Const node, read-only; strings as an object array of bytes.

    Raises:
      GraphError: its bytes and its shape contradict each other.
    """
    try:
        value = tensor_value(node.attr["value"].tensor if "value" in node.attr else TensorProto())
    except (BrokenFileError, ValueError) as error:
        raise GraphError(f"The constant {node.name} cannot be read.", received=error) from error
    value.flags.writeable = False
    return value


def tensor_value(tensor: TensorProto) -> Array:
    """The value of a TensorProto.

    Raises:
      BrokenFileError: its bytes and its shape contradict each other.
      UnsupportedError: it holds neither numbers nor strings.
    """
    dtype = dtypes.of_number(tensor.dtype)
    shape = read_shape(tensor.tensor_shape)
    size = math.prod(shape)
    if tensor.tensor_content and dtype.is_string:
        raise BrokenFileError(
            "Strings do not stand where they should.", expected="string_val", received="bytes"
        )
    if tensor.tensor_content:
        if len(tensor.tensor_content) != size * dtype.numpy.itemsize:
            raise BrokenFileError(
                "The bytes do not fit the shape.",
                expected=f"{size * dtype.numpy.itemsize} for {dtype.name} {list(shape)}",
                received=len(tensor.tensor_content),
            )
        return from_little_endian(memoryview(tensor.tensor_content), dtype.numpy, shape, False)
    values = _listed_values(tensor, dtype)
    if len(values) > size or (not len(values) and size and dtype.is_string):
        raise BrokenFileError(
            "The values do not fit the shape.", expected=f"at most {size}", received=len(values)
        )
    if len(values) == size:
        return values.reshape(shape)
    # The last value stands for all that follow; none at all means zeros.
    last = values[-1:] if len(values) else np.zeros(1, dtype.numpy)
    if len(values) <= 1:
        return np.broadcast_to(last.reshape(()), shape)
    if size > _MAX_FILLED_ELEMENTS:
        raise BrokenFileError("The shape is too large for the values.", received=list(shape))
    return np.concatenate([values, np.broadcast_to(last, size - len(values))]).reshape(shape)


def _listed_values(tensor: TensorProto, dtype: dtypes.DType) -> Array:
    listed = getattr(tensor, _FIELDS.get(dtype.name, _INTEGERS))
    if dtype.is_string:
        strings = np.empty(len(listed), object)
        strings[:] = list(listed)
        return strings
    if dtype.name in ("complex64", "complex128"):
        parts = np.array(listed, np.float64)
        values: Array = (parts[0::2] + 1j * parts[1::2]).astype(dtype.numpy)
        return values
    if dtype.name in ("float16", "bfloat16"):
        return np.array(listed, np.uint16).view(dtype.numpy)
    if dtype.numpy.fields is not None:
        return (
            np.array(listed, np.int32).astype(dtype.numpy.fields[dtype.name][0]).view(dtype.numpy)
        )
    wide = {"i": np.int64, "u": np.uint64}.get(dtype.numpy.kind)
    return np.array(listed, wide).astype(dtype.numpy)
