from __future__ import annotations

import subprocess
import sys

import pytest

from checkpoints import messages

OWN = [
    "BundleEntryProto",
    "BundleHeaderProto",
    "BytesList",
    "CheckpointState",
    "Example",
    "Feature",
    "Features",
    "FloatList",
    "Int64List",
    "SavedModel",
    "SavedSlice",
    "SavedSliceMeta",
    "SavedTensorSliceMeta",
    "SavedTensorSlices",
    "TensorSliceProto",
]


def fields(descriptor):
    """What decides on the bytes of a message, nested ones included; package names aside."""
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            field.is_packed,
            field.containing_oneof and field.containing_oneof.name,
            field.message_type and field.message_type.full_name.split(".", 1)[1],
            field.message_type
            and field.message_type.containing_type == descriptor
            and fields(field.message_type),
            field.enum_type and [(value.name, value.number) for value in field.enum_type.values],
        )
        for field in descriptor.fields
    }


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", OWN)
def test_our_messages_have_the_fields_of_tensorflows(tensorflow, name):
    from tensorflow.core.example import example_pb2, feature_pb2
    from tensorflow.core.framework import tensor_slice_pb2
    from tensorflow.core.protobuf import saved_model_pb2, tensor_bundle_pb2
    from tensorflow.core.util import saved_tensor_slice_pb2
    from tensorflow.python.training import checkpoint_state_pb2

    modules = [
        example_pb2,
        feature_pb2,
        tensor_slice_pb2,
        saved_model_pb2,
        tensor_bundle_pb2,
        saved_tensor_slice_pb2,
        checkpoint_state_pb2,
    ]
    (theirs,) = {getattr(module, name) for module in modules if hasattr(module, name)}
    ours = getattr(messages, name)

    assert ours.DESCRIPTOR.full_name == f"slimtune.{name}"
    if name == "BundleEntryProto":
        # The enum of dtypes grows with TensorFlow; its numbers stand in checkpoints.dtypes.
        assert ours.DESCRIPTOR.fields_by_name["dtype"].number == 1
        assert set(fields(ours.DESCRIPTOR)) == set(fields(theirs.DESCRIPTOR))
    elif name == "SavedSliceMeta":
        assert set(fields(ours.DESCRIPTOR)) == set(fields(theirs.DESCRIPTOR))
    else:
        assert fields(ours.DESCRIPTOR) == fields(theirs.DESCRIPTOR)


@pytest.mark.tensorflow
def test_an_example_goes_to_tensorflow_and_back(tensorflow):
    example = messages.Example()
    example.features.feature["image/class/label"].int64_list.value.extend([3, -1])
    example.features.feature["image/format"].bytes_list.value.append(b"jp\0g")
    example.features.feature["x"].float_list.value.append(0.5)

    theirs = tensorflow.train.Example.FromString(example.SerializeToString())

    assert theirs.features.feature["image/class/label"].int64_list.value == [3, -1]
    assert messages.Example.FromString(theirs.SerializeToString()) == example


def test_an_extent_of_length_zero_is_not_one_without_a_length():
    none = messages.TensorSliceProto()
    none.extent.add()
    zero = messages.TensorSliceProto()
    zero.extent.add(length=0)

    assert none.SerializeToString() == b"\x0a\x00"
    assert zero.SerializeToString() == b"\x0a\x02\x10\x00"
    assert messages.TensorSliceProto.FromString(b"\x0a\x02\x10\x00").extent[0].HasField("length")


def test_a_module_loaded_anew_finds_its_messages_again():
    code = (
        "import importlib, checkpoints.messages as m; before = m.SavedModel; importlib.reload(m);"
        "assert m.SavedModel is before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.tensorflow
def test_tensorflow_may_be_loaded_first():
    code = (
        "import tensorflow.core.protobuf.saved_model_pb2 as theirs, checkpoints.messages as ours;"
        "message = ours.SavedModel(saved_model_schema_version=1); message.meta_graphs.add();"
        "assert theirs.SavedModel.FromString(message.SerializeToString()).meta_graphs"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
