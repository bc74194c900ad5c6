"""What is in a TFLite model, from its bytes alone: the extra that runs it is not needed.

A FlatBuffer is a tree of tables. A table begins with the distance back to its vtable, which says
where each of its fields lies; strings and vectors begin with their length. Every place is compared
with the file before it is looked at.

Source:
  TensorFlow Lite's schema.fbs, version 3; https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

from checkpoints.errors import GraphError
from checkpoints.mapped import map_file
from exporters.runtimes.contents import ModelContents, Tensor
from exporters.runtimes.tflite_runner import read_tflite_metadata

_VERSION, _OPERATOR_CODES, _SUBGRAPHS, _BUFFERS = 0, 1, 2, 4
_TENSORS, _INPUTS, _OUTPUTS, _OPERATORS = 0, 1, 2, 3
_SHAPE, _TYPE, _BUFFER, _NAME, _SHAPE_SIGNATURE = 0, 1, 2, 3, 7
_OLD_CODE, _CUSTOM_CODE, _BUILTIN_CODE = 0, 1, 3
_BUFFER_DATA = 0
_CUSTOM = 32
_DTYPES = (
    "float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64",
    "int8", "float64", "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4",
    "bfloat16",
)  # fmt: skip
_WEIGHTS = frozenset({"float32", "float16", "bfloat16", "int8", "uint8", "int4"})
_MAX_ENTRIES = 1 << 20
_MAX_NUMBERS = 1 << 12
"""A vector can be named many times, so that a small file would be read for ever."""


def tflite_contents(path: Path) -> ModelContents:
    """Inputs, outputs, ops and parameters of the first graph of a .tflite file.

    Raises:
      GraphError: the file is cut or damaged.
    """
    try:
        contents = _contents(_FlatBuffer(map_file(path)))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise GraphError(f"{path} is no whole TFLite model.", received=error) from error
    return replace(contents, metadata=read_tflite_metadata(path))


def _contents(buffer: _FlatBuffer) -> ModelContents:
    model = buffer.root()
    (graph, *_) = buffer.tables(model, _SUBGRAPHS)
    tensors = buffer.tables(graph, _TENSORS)
    buffers = buffer.tables(model, _BUFFERS)
    codes = [_code(buffer, code) for code in buffer.tables(model, _OPERATOR_CODES)]
    operators = buffer.tables(graph, _OPERATORS)
    ops = Counter(codes[buffer.number(operator, 0, "<I")] for operator in operators)
    parameters = 0
    for tensor in tensors:
        place = buffer.number(tensor, _BUFFER, "<I")
        is_constant = bool(place) and buffer.length(buffers[place], _BUFFER_DATA) > 0
        if is_constant and _dtype(buffer, tensor) in _WEIGHTS:
            parameters += math.prod(buffer.numbers(tensor, _SHAPE))
    return ModelContents(
        inputs=tuple(_tensor(buffer, tensors[at]) for at in buffer.numbers(graph, _INPUTS)),
        outputs=tuple(_tensor(buffer, tensors[at]) for at in buffer.numbers(graph, _OUTPUTS)),
        ops=dict(ops.most_common()),
        parameters=parameters,
        metadata=None,
        written_for=f"schema {buffer.number(model, _VERSION, '<I')}",
    )


def _code(buffer: _FlatBuffer, table: int) -> str:
    """An op's name; that of a custom op stands in the file."""
    code = max(buffer.number(table, _OLD_CODE, "<b"), buffer.number(table, _BUILTIN_CODE, "<i"))
    if code == _CUSTOM:
        return buffer.text(table, _CUSTOM_CODE) or "CUSTOM"
    names = _OPS.split()
    return names[code] if 0 <= code < len(names) else f"op {code}"


def _tensor(buffer: _FlatBuffer, table: int) -> Tensor:
    sizes = buffer.numbers(table, _SHAPE_SIGNATURE) or buffer.numbers(table, _SHAPE)
    shape = tuple(None if size < 0 else size for size in sizes)
    return Tensor(buffer.text(table, _NAME), _dtype(buffer, table), shape)


def _dtype(buffer: _FlatBuffer, table: int) -> str | None:
    number = buffer.number(table, _TYPE, "<b")
    return _DTYPES[number] if 0 <= number < len(_DTYPES) else None


class _FlatBuffer:
    """Reads fields of tables; what lies outside the file raises struct.error."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def root(self) -> int:
        """The place of the outermost table."""
        return self._unpack("<I", 0)

    def number(self, table: int, field: int, form: str) -> int:
        """A number of a table; 0 where it is absent, as it is by default."""
        place = self._place(table, field)
        return 0 if place is None else self._unpack(form, place)

    def numbers(self, table: int, field: int) -> list[int]:
        """A vector of int32."""
        start, length = self._vector(table, field)
        if length > _MAX_NUMBERS:
            raise ValueError(f"a shape or list of {length} numbers")
        return [self._unpack("<i", start + 4 * index) for index in range(length)]

    def tables(self, table: int, field: int) -> list[int]:
        """The places of a vector's tables."""
        start, length = self._vector(table, field)
        places = range(start, start + 4 * length, 4)
        return [place + self._unpack("<I", place) for place in places]

    def length(self, table: int, field: int) -> int:
        """How many entries a vector has."""
        return self._vector(table, field)[1]

    def text(self, table: int, field: int) -> str:
        """A string; empty where it is absent."""
        start, length = self._vector(table, field)
        return str(self._data[start : start + length], "utf-8")

    def _vector(self, table: int, field: int) -> tuple[int, int]:
        """Where a vector's entries begin, and how many there are."""
        place = self._place(table, field)
        if place is None:
            return 0, 0
        start = place + self._unpack("<I", place)
        length = self._unpack("<I", start)
        if length > len(self._data) or (length > _MAX_ENTRIES and field != _BUFFER_DATA):
            raise ValueError(f"a vector of {length} entries in a file of {len(self._data)} bytes")
        return start + 4, length

    def _place(self, table: int, field: int) -> int | None:
        vtable = table - self._unpack("<i", table)
        entry = 4 + 2 * field
        if entry >= self._unpack("<H", vtable):
            return None
        offset = self._unpack("<H", vtable + entry)
        return table + offset if offset else None

    def _unpack(self, form: str, place: int) -> int:
        if place < 0:
            raise IndexError(f"byte {place} is outside the file")
        number: int = struct.unpack_from(form, self._data, place)[0]
        return number


_OPS = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL
CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND
SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST
PRELU MAXIMUM ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN
TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN
FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN
FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU
REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM
MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
"""
"""Names of the builtin ops in the order of their numbers; later ones are told by number."""
