"""Protobuf messages of TensorFlow's files, without TensorFlow and without generated code.

TensorBoard carries copies of most messages under the package name `tensorboard`, so they
live beside TensorFlow's own. The few it lacks are described below and built when this
module is imported, under the package name `slimtune`.

Source:
  Field numbers and types as in TensorFlow's tensor_bundle.proto, tensor_slice.proto,
  saved_tensor_slice.proto, saved_model.proto, checkpoint_state.proto, feature.proto,
  example.proto and control_flow.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorboard.compat.proto.attr_value_pb2 import AttrValue, NameAttrList
from tensorboard.compat.proto.function_pb2 import (
    FunctionDef,
    FunctionDefLibrary,
    GradientDef,
)
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.meta_graph_pb2 import (
    AssetFileDef,
    CollectionDef,
    MetaGraphDef,
    SignatureDef,
    TensorInfo,
)
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.op_def_pb2 import OpDef, OpList
from tensorboard.compat.proto.resource_handle_pb2 import ResourceHandleProto
from tensorboard.compat.proto.saver_pb2 import SaverDef
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.trackable_object_graph_pb2 import TrackableObjectGraph
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.compat.proto.variable_pb2 import VariableDef
from tensorboard.compat.proto.versions_pb2 import VersionDef

__all__ = [
    "AssetFileDef",
    "AttrValue",
    "BundleEntryProto",
    "BundleHeaderProto",
    "BytesList",
    "CheckpointState",
    "CollectionDef",
    "CondContextDef",
    "DataType",
    "Example",
    "Feature",
    "Features",
    "FloatList",
    "FunctionDef",
    "FunctionDefLibrary",
    "GradientDef",
    "GraphDef",
    "Int64List",
    "MetaGraphDef",
    "NameAttrList",
    "NodeDef",
    "OpDef",
    "OpList",
    "ResourceHandleProto",
    "SavedModel",
    "SavedSlice",
    "SavedSliceMeta",
    "SavedTensorSliceMeta",
    "SavedTensorSlices",
    "SaverDef",
    "SignatureDef",
    "TensorInfo",
    "TensorProto",
    "TensorShapeProto",
    "TensorSliceProto",
    "TrackableObjectGraph",
    "VariableDef",
    "VersionDef",
    "WhileContextDef",
]

_FILE = "slimtune/checkpoints.proto"
_TYPES_FILE = "tensorboard/compat/proto/types.proto"
_USED = (MetaGraphDef, TensorProto, TensorShapeProto, VersionDef)
_PACKAGE = "slimtune"

_FieldDescriptor = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bytes": _FieldDescriptor.TYPE_BYTES,
    "fixed32": _FieldDescriptor.TYPE_FIXED32,
    "double": _FieldDescriptor.TYPE_DOUBLE,
    "float": _FieldDescriptor.TYPE_FLOAT,
    "int32": _FieldDescriptor.TYPE_INT32,
    "int64": _FieldDescriptor.TYPE_INT64,
    "string": _FieldDescriptor.TYPE_STRING,
}


class _Field(NamedTuple):
    """One field: a scalar type, or a message or enum by name (TensorBoard's with a leading dot)."""

    number: int
    name: str
    type: str
    repeated: bool = False
    oneof: str = ""


_SHAPE = ".tensorboard.TensorShapeProto"
_VERSIONS = ".tensorboard.VersionDef"
_DATA_TYPE = ".tensorboard.DataType"
_ENUMS = {_DATA_TYPE, "BundleHeaderProto.Endianness"}

_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "TensorSliceProto": (_Field(1, "extent", "TensorSliceProto.Extent", repeated=True),),
    "TensorSliceProto.Extent": (
        _Field(1, "start", "int64"),
        # The oneof tells an extent of length 0 from one without a length, which means "all of it".
        _Field(2, "length", "int64", oneof="has_length_hack"),
    ),
    "BundleHeaderProto": (
        _Field(1, "num_shards", "int32"),
        _Field(2, "endianness", "BundleHeaderProto.Endianness"),
        _Field(3, "version", _VERSIONS),
    ),
    "BundleEntryProto": (
        _Field(1, "dtype", _DATA_TYPE),
        _Field(2, "shape", _SHAPE),
        _Field(3, "shard_id", "int32"),
        _Field(4, "offset", "int64"),
        _Field(5, "size", "int64"),
        _Field(6, "crc32c", "fixed32"),
        _Field(7, "slices", "TensorSliceProto", repeated=True),
    ),
    "SavedSliceMeta": (
        _Field(1, "name", "string"),
        _Field(2, "shape", _SHAPE),
        _Field(3, "type", _DATA_TYPE),
        _Field(4, "slice", "TensorSliceProto", repeated=True),
    ),
    "SavedTensorSliceMeta": (
        _Field(1, "tensor", "SavedSliceMeta", repeated=True),
        _Field(2, "versions", _VERSIONS),
    ),
    "SavedSlice": (
        _Field(1, "name", "string"),
        _Field(2, "slice", "TensorSliceProto"),
        _Field(3, "data", ".tensorboard.TensorProto"),
    ),
    "SavedTensorSlices": (
        _Field(1, "meta", "SavedTensorSliceMeta"),
        _Field(2, "data", "SavedSlice"),
    ),
    "SavedModel": (
        _Field(1, "saved_model_schema_version", "int64"),
        _Field(2, "meta_graphs", ".tensorboard.MetaGraphDef", repeated=True),
    ),
    "CheckpointState": (
        _Field(1, "model_checkpoint_path", "string"),
        _Field(2, "all_model_checkpoint_paths", "string", repeated=True),
        _Field(3, "all_model_checkpoint_timestamps", "double", repeated=True),
        _Field(4, "last_preserved_timestamp", "double"),
    ),
    "BytesList": (_Field(1, "value", "bytes", repeated=True),),
    "FloatList": (_Field(1, "value", "float", repeated=True),),
    "Int64List": (_Field(1, "value", "int64", repeated=True),),
    "Feature": (
        _Field(1, "bytes_list", "BytesList", oneof="kind"),
        _Field(2, "float_list", "FloatList", oneof="kind"),
        _Field(3, "int64_list", "Int64List", oneof="kind"),
    ),
    "Features": (_Field(1, "feature", "Features.FeatureEntry", repeated=True),),
    "Features.FeatureEntry": (_Field(1, "key", "string"), _Field(2, "value", "Feature")),
    "Example": (_Field(1, "features", "Features"),),
    "ValuesDef": (
        _Field(1, "values", "string", repeated=True),
        _Field(2, "external_values", "ValuesDef.ExternalValuesEntry", repeated=True),
    ),
    "ValuesDef.ExternalValuesEntry": (_Field(1, "key", "string"), _Field(2, "value", "string")),
    "ControlFlowContextDef": (
        _Field(1, "cond_ctxt", "CondContextDef", oneof="ctxt"),
        _Field(2, "while_ctxt", "WhileContextDef", oneof="ctxt"),
    ),
    # What is not read is kept as it is: fields that are not described here.
    "CondContextDef": (
        _Field(2, "pred_name", "string"),
        _Field(3, "pivot_name", "string"),
        _Field(5, "values_def", "ValuesDef"),
        _Field(6, "nested_contexts", "ControlFlowContextDef", repeated=True),
    ),
    "WhileContextDef": (
        _Field(5, "pivot_name", "string"),
        _Field(6, "pivot_for_pred_name", "string"),
        _Field(7, "pivot_for_body_name", "string"),
        _Field(8, "loop_exit_names", "string", repeated=True),
        _Field(9, "values_def", "ValuesDef"),
        _Field(10, "loop_enter_names", "string", repeated=True),
        _Field(11, "maximum_iterations_name", "string"),
        _Field(12, "nested_contexts", "ControlFlowContextDef", repeated=True),
    ),
}
_MAP_ENTRIES = {"Features.FeatureEntry", "ValuesDef.ExternalValuesEntry"}


def _file() -> descriptor_pb2.FileDescriptorProto:
    """The description of our own messages, as protoc would have made it."""
    file = descriptor_pb2.FileDescriptorProto(
        name=_FILE,
        package=_PACKAGE,
        syntax="proto3",
        dependency=[_TYPES_FILE, *sorted(message.DESCRIPTOR.file.name for message in _USED)],
    )
    made: dict[str, descriptor_pb2.DescriptorProto] = {}
    for full_name, fields in _MESSAGES.items():
        outer, _, name = full_name.rpartition(".")
        message = made[outer].nested_type.add() if outer else file.message_type.add()
        message.name = name
        message.options.map_entry = full_name in _MAP_ENTRIES
        made[full_name] = message
        for field in fields:
            _add_field(message, field)
    endianness = made["BundleHeaderProto"].enum_type.add(name="Endianness")
    endianness.value.add(name="LITTLE", number=0)
    endianness.value.add(name="BIG", number=1)
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, field: _Field) -> None:
    added = message.field.add(name=field.name, number=field.number)
    added.label = (
        _FieldDescriptor.LABEL_REPEATED if field.repeated else _FieldDescriptor.LABEL_OPTIONAL
    )
    if field.type in _SCALARS:
        added.type = _SCALARS[field.type]
    else:
        added.type = (
            _FieldDescriptor.TYPE_ENUM if field.type in _ENUMS else _FieldDescriptor.TYPE_MESSAGE
        )
        added.type_name = field.type if field.type.startswith(".") else f".{_PACKAGE}.{field.type}"
    if field.oneof:
        names = [oneof.name for oneof in message.oneof_decl]
        if field.oneof not in names:
            message.oneof_decl.add(name=field.oneof)
            names.append(field.oneof)
        added.oneof_index = names.index(field.oneof)


# Adding the same bytes twice is no conflict, so a module loaded anew finds its messages again.
descriptor_pool.Default().AddSerializedFile(_file().SerializeToString(deterministic=True))


def _message(name: str) -> Any:
    descriptor = descriptor_pool.Default().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(descriptor)


if TYPE_CHECKING:
    BundleEntryProto: TypeAlias = Any
    BundleHeaderProto: TypeAlias = Any
    BytesList: TypeAlias = Any
    CheckpointState: TypeAlias = Any
    CondContextDef: TypeAlias = Any
    Example: TypeAlias = Any
    Feature: TypeAlias = Any
    Features: TypeAlias = Any
    FloatList: TypeAlias = Any
    Int64List: TypeAlias = Any
    SavedModel: TypeAlias = Any
    SavedSlice: TypeAlias = Any
    SavedSliceMeta: TypeAlias = Any
    SavedTensorSliceMeta: TypeAlias = Any
    SavedTensorSlices: TypeAlias = Any
    TensorSliceProto: TypeAlias = Any
    WhileContextDef: TypeAlias = Any
else:
    BundleEntryProto = _message("BundleEntryProto")
    BundleHeaderProto = _message("BundleHeaderProto")
    BytesList = _message("BytesList")
    CheckpointState = _message("CheckpointState")
    CondContextDef = _message("CondContextDef")
    Example = _message("Example")
    Feature = _message("Feature")
    Features = _message("Features")
    FloatList = _message("FloatList")
    Int64List = _message("Int64List")
    SavedModel = _message("SavedModel")
    SavedSlice = _message("SavedSlice")
    SavedSliceMeta = _message("SavedSliceMeta")
    SavedTensorSliceMeta = _message("SavedTensorSliceMeta")
    SavedTensorSlices = _message("SavedTensorSlices")
    TensorSliceProto = _message("TensorSliceProto")
    WhileContextDef = _message("WhileContextDef")


def is_same(first: Any, second: Any) -> bool:
    """Whether two messages of one class say the same, in `==` and where numbers are NaN."""
    return bool(first == second) or first.SerializeToString(
        deterministic=True
    ) == second.SerializeToString(deterministic=True)
