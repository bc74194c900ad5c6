import ml_dtypes
import numpy as np
import pytest

from checkpoints.errors import GraphError, UnsupportedError
from checkpoints.messages import NodeDef, TensorProto
from exporters.constants import constant_value, tensor_value


def constant(**fields) -> NodeDef:
    node = NodeDef(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(TensorProto(**fields))
    return node


def with_shape(tensor: TensorProto, *sizes: int) -> TensorProto:
    for size in sizes:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


def test_bytes_are_seen_in_place_and_cannot_be_written():
    content = np.arange(6, dtype=np.float32).tobytes()
    node = NodeDef(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(
        with_shape(TensorProto(dtype=1, tensor_content=content), 2, 3)
    )
    value = constant_value(node)
    np.testing.assert_array_equal(value, np.arange(6, dtype=np.float32).reshape(2, 3))
    assert not value.flags.writeable


def test_one_value_fills_a_shape_without_being_copied():
    value = tensor_value(with_shape(TensorProto(dtype=1, float_val=[2.5]), 1000, 1000, 1000))
    assert value.shape == (1000, 1000, 1000)
    assert value.strides == (0, 0, 0)
    assert value[999, 0, 1] == 2.5


def test_the_last_value_stands_for_those_that_follow():
    value = tensor_value(with_shape(TensorProto(dtype=3, int_val=[1, 2]), 2, 2))
    assert value.tolist() == [[1, 2], [2, 2]]


def test_no_values_are_zeros_and_a_constant_without_a_value_is_refused():
    assert tensor_value(with_shape(TensorProto(dtype=9), 3)).tolist() == [0, 0, 0]
    with pytest.raises(UnsupportedError):
        constant_value(NodeDef(name="c", op="Const"))


@pytest.mark.parametrize(
    ("tensor", "received"),
    [
        (with_shape(TensorProto(dtype=1, tensor_content=b"abc"), 1), "bytes do not fit"),
        (with_shape(TensorProto(dtype=1, float_val=[1, 2, 3]), 2), "values do not fit"),
        (with_shape(TensorProto(dtype=1, float_val=[1, 2]), 1 << 40), "too large"),
        (with_shape(TensorProto(dtype=1, float_val=[1]), -1), "not known"),
        (with_shape(TensorProto(dtype=7), 2), "values do not fit"),
    ],
)
def test_bytes_and_shape_that_contradict_each_other_are_refused(tensor, received):
    node = NodeDef(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(tensor)
    with pytest.raises(GraphError, match="The constant c cannot be read") as caught:
        constant_value(node)
    assert received in caught.value.received


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "value",
    [
        np.array([1.5, -2.0], np.float32),
        np.array([[1.5], [-2.0]], np.float64),
        np.array([1.5, -2.0], np.float16),
        np.array([1.5, -2.0], ml_dtypes.bfloat16),
        np.array([1, -2], np.int8),
        np.array([1, -2], np.int16),
        np.array([1, -2], np.int32),
        np.array([1, -(2**40)], np.int64),
        np.array([1, 255], np.uint8),
        np.array([1, 65535], np.uint16),
        np.array([1, 2**32 - 1], np.uint32),
        np.array([1, 2**64 - 1], np.uint64),
        np.array([True, False]),
        np.array([1 + 2j, -3j], np.complex64),
        np.array([1 + 2j, -3j], np.complex128),
        np.array([b"a", b"\xff"], object),
        np.array(3.0, np.float32),
        np.zeros((0, 3), np.float32),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_what_tensorflow_writes_is_read(value):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    for proto in (tf.make_tensor_proto(value), listed(tf, value)):
        read = tensor_value(TensorProto.FromString(proto.SerializeToString()))
        assert read.dtype == value.dtype
        np.testing.assert_array_equal(read, value)


def listed(tf, value):
    """The same with values in their typed field instead of bytes."""
    dtype = tf.as_dtype(value.dtype if value.dtype != object else "string")
    proto = tf.make_tensor_proto(value)
    if not proto.tensor_content:
        return proto
    proto.tensor_content = b""
    fields = {
        "float16": ("half_val", lambda v: v.view(np.uint16)),
        "bfloat16": ("half_val", lambda v: v.view(np.uint16)),
        "float32": ("float_val", None),
        "float64": ("double_val", None),
        "int64": ("int64_val", None),
        "uint32": ("uint32_val", None),
        "uint64": ("uint64_val", None),
        "bool": ("bool_val", None),
        "complex64": ("scomplex_val", lambda v: v.view(np.float32)),
        "complex128": ("dcomplex_val", lambda v: v.view(np.float64)),
    }
    name, view = fields.get(dtype.name, ("int_val", None))
    flat = value.reshape(-1)
    getattr(proto, name).extend((view(flat) if view else flat).tolist())
    return proto


def test_strings_as_bytes_are_refused():
    node = NodeDef(name="c", op="Const")
    tensor = node.attr["value"].tensor
    tensor.dtype = 7
    tensor.tensor_shape.SetInParent()
    tensor.tensor_content = b"12345678"
    with pytest.raises(GraphError, match="c cannot be read"):
        constant_value(node)
