"""What is in an ONNX model, from its bytes alone: the extra that runs it is not needed.

Source:
  Field numbers and element types as in ONNX's onnx.proto.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from checkpoints.errors import BrokenFileError, GraphError
from checkpoints.mapped import map_file
from checkpoints.wire import LENGTH_DELIMITED, VARINT, Field, read_varint, scan
from exporters.metadata import Metadata, metadata_from_text
from exporters.names import METADATA_NODE
from exporters.runtimes.contents import ModelContents, Tensor

_PRODUCER, _GRAPH, _OPSETS, _PROPERTIES = 2, 7, 8, 14
_NODES, _INITIALIZERS, _INPUTS, _OUTPUTS = 1, 5, 11, 12
_NODE_OP = 4
_VALUE_NAME, _VALUE_TYPE = 1, 2
_TENSOR_TYPE, _ELEMENT_TYPE, _SHAPE = 1, 1, 2
_DIMENSION, _DIMENSION_VALUE = 1, 1
_DIMS, _DATA_TYPE, _INITIALIZER_NAME = 1, 2, 8
_KEY, _VALUE = 1, 2
_DTYPES = (
    "", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool",
    "float16", "float64", "uint32", "uint64", "complex64", "complex128", "bfloat16",
)  # fmt: skip


def onnx_contents(path: Path) -> ModelContents:
    """Inputs, outputs, ops and parameters of an .onnx file.

    Raises:
      GraphError: the file is cut or damaged.
    """
    data = map_file(path)
    try:
        return _Model(path, data).contents()
    except (BrokenFileError, UnicodeDecodeError) as error:
        raise GraphError(f"{path} is no whole ONNX model.", received=error) from error


class _Model:
    def __init__(self, path: Path, data: memoryview) -> None:
        self._path = path
        self._data = data

    def contents(self) -> ModelContents:
        """Goes through the model once."""
        ops: Counter[str] = Counter()
        tensors: dict[int, list[Tensor]] = {_INPUTS: [], _OUTPUTS: []}
        initializers: dict[str, int] = {}
        versions = []
        metadata: Metadata | None = None
        producer = ""
        for field in scan(self._data):
            if field.number == _PRODUCER:
                producer = self._text(field)
            elif field.number == _OPSETS:
                versions += [part.value for part in self._parts(field, 2) if part.value]
            elif field.number == _PROPERTIES:
                metadata = self._metadata(field) or metadata
            elif field.number == _GRAPH and field.wire_type == LENGTH_DELIMITED:
                for part in scan(self._data, field.start, field.end):
                    if part.number == _NODES:
                        ops.update(self._text(entry) for entry in self._parts(part, _NODE_OP))
                    elif part.number in tensors:
                        tensors[part.number].append(self._tensor(part))
                    elif part.number == _INITIALIZERS:
                        name, size = self._initializer(part)
                        initializers[name] = size
        # Before version 4 of the format initializers were listed as inputs too.
        inputs = [tensor for tensor in tensors[_INPUTS] if tensor.name not in initializers]
        return ModelContents(
            inputs=tuple(inputs),
            outputs=tuple(tensors[_OUTPUTS]),
            ops=dict(ops.most_common()),
            parameters=sum(initializers.values()),
            metadata=metadata,
            written_for=f"opset {max(versions)}" if versions else None,
            written_by=producer or None,
        )

    def _parts(self, field: Field, number: int) -> Iterator[Field]:
        for part in scan(self._data, field.start, field.end):
            if part.number == number:
                yield part

    def _text(self, field: Field) -> str:
        return str(self._data[field.start : field.end], "utf-8")

    def _tensor(self, field: Field) -> Tensor:
        name, dtype, shape = "", None, None
        for part in scan(self._data, field.start, field.end):
            if part.number == _VALUE_NAME:
                name = self._text(part)
            elif part.number == _VALUE_TYPE:
                for tensor_type in self._parts(part, _TENSOR_TYPE):
                    for entry in scan(self._data, tensor_type.start, tensor_type.end):
                        if entry.number == _ELEMENT_TYPE:
                            dtype = _dtype(entry.value)
                        elif entry.number == _SHAPE:
                            shape = tuple(
                                self._size(size) for size in self._parts(entry, _DIMENSION)
                            )
        return Tensor(name, dtype, shape)

    def _size(self, field: Field) -> int | None:
        """A dimension; None for an open one, which has a name or nothing."""
        for part in self._parts(field, _DIMENSION_VALUE):
            if part.wire_type == VARINT:
                return part.value if part.value < 1 << 63 else None
        return None

    def _initializer(self, field: Field) -> tuple[str, int]:
        """Name, and how many numbers it holds where they are floating point."""
        name, dtype = "", ""
        sizes: list[int] = []
        for part in scan(self._data, field.start, field.end):
            if part.number == _INITIALIZER_NAME:
                name = self._text(part)
            elif part.number == _DATA_TYPE:
                dtype = _dtype(part.value) or ""
            elif part.number == _DIMS and part.wire_type == VARINT:
                sizes.append(part.value)
            elif part.number == _DIMS:
                offset = part.start
                while offset < part.end:
                    size, offset = read_varint(self._data, offset, part.end)
                    sizes.append(size)
        return name, math.prod(sizes) if dtype.startswith(("float", "bfloat")) else 0

    def _metadata(self, field: Field) -> Metadata | None:
        keys = [self._text(part) for part in self._parts(field, _KEY)]
        if keys != [METADATA_NODE]:
            return None
        texts = [bytes(self._data[part.start : part.end]) for part in self._parts(field, _VALUE)]
        return metadata_from_text(texts[0], str(self._path)) if texts else None


def _dtype(number: int) -> str | None:
    return _DTYPES[number] if 0 < number < len(_DTYPES) else None
