"""Requests that TensorFlow Serving answers before it says that a model is ready.

A server builds much of what a graph needs at its first request, which then takes seconds. It sends
the requests of this file to itself first.

Source:
  TensorFlow Serving's prediction_log.proto, predict.proto and model.proto; the file's place and name
  as in its saved_model_warmup_util.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from checkpoints.checksum import crc32c, mask
from checkpoints.messages import DataType, SignatureDef, TensorProto
from checkpoints.wire import encode_header
from exporters.values import Array

PLACE = Path("assets.extra", "tf_serving_warmup_requests")
_PREDICT_LOG, _REQUEST = 6, 1
_MODEL_SPEC, _INPUTS, _SIGNATURE_NAME = 1, 2, 3
_KEY, _VALUE = 1, 2


def write_warm_up(
    directory: Path, key: str, signature: SignatureDef, batches: Iterable[Array]
) -> int:
    """Writes a request a batch into a SavedModel's directory; gives how many.

    Args:
      directory: the SavedModel's.
      key: of the signature, as serving_default.
      signature: with one input.
      batches: of the input; numbers, or the bytes of files as objects.
    """
    (name,) = signature.inputs
    path = directory / PLACE
    path.parent.mkdir()
    count = 0
    with path.open("wb") as file:
        for batch in batches:
            file.write(_framed(_logged(_request(key, name, batch))))
            count += 1
    return count


def _request(key: str, name: str, batch: Array) -> bytes:
    """A PredictRequest; the server finds the model's name itself."""
    model = _field(_SIGNATURE_NAME, key.encode())
    entry = _field(_KEY, name.encode()) + _field(_VALUE, _tensor(batch))
    return _field(_MODEL_SPEC, model) + _field(_INPUTS, entry)


def _logged(request: bytes) -> bytes:
    """The PredictionLog of a request."""
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _tensor(batch: Array) -> bytes:
    tensor = TensorProto()
    for size in batch.shape:
        tensor.tensor_shape.dim.add(size=size)
    if batch.dtype.kind == "O":
        tensor.dtype = DataType.DT_STRING
        tensor.string_val.extend(batch.ravel().tolist())
    else:
        tensor.dtype = DataType.DT_FLOAT
        tensor.tensor_content = batch.astype("<f4").tobytes()
    data: bytes = tensor.SerializeToString(deterministic=True)
    return data


def _field(number: int, data: bytes) -> bytes:
    return encode_header(number, len(data)) + data


def _framed(data: bytes) -> bytes:
    """A record of a TFRecord file."""
    length = struct.pack("<Q", len(data))
    checksums = (struct.pack("<I", mask(crc32c(part))) for part in (length, data))
    return length + next(checksums) + data + next(checksums)
