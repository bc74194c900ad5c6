"""What kinds of ops mean for a graph that is to be served: tables, shared as constants.

Source:
  Op names, reference inputs and resource inputs as in TensorFlow's op registry, 0.5 to 2.21.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class ValueOp(NamedTuple):
    """What takes the place of an op that reads a variable through its handle.

    Attributes:
      op: its name.
      dtype_attribute: the attribute that holds the variable's dtype.
      kept_attributes: attributes both have.
      zero_attribute: attribute of the replaced op that must be absent or 0.
    """

    op: str
    dtype_attribute: str
    kept_attributes: tuple[str, ...] = ()
    zero_attribute: str = ""


REFERENCE_VARIABLES = frozenset({"Variable", "VariableV2", "AutoReloadVariable"})
"""Variables whose output is the value, by reference."""

HANDLE_VARIABLES = frozenset({"VarHandleOp"})
"""Variables whose output is a resource handle, which other ops read."""

VARIABLES = REFERENCE_VARIABLES | HANDLE_VARIABLES

VALUE_OPS = {
    "RefEnter": "Enter",
    "RefExit": "Exit",
    "RefIdentity": "Identity",
    "RefMerge": "Merge",
    "RefNextIteration": "NextIteration",
    "RefSwitch": "Switch",
}
"""Ops that pass a reference on -> the same for values, with the same attributes."""

HANDLE_READS = {
    "ReadVariableOp": ValueOp("Identity", "T"),
    "ResourceGather": ValueOp("Gather", "Tparams", ("Tindices", "validate_indices"), "batch_dims"),
    "ResourceGatherNd": ValueOp("GatherNd", "Tparams", ("Tindices",)),
    "VariableShape": ValueOp("Shape", "T", ("out_type",)),
}
"""Ops that read a handle -> the op that does the same with the value."""

HANDLE_PASSES = frozenset({"Enter", "Exit", "Identity", "Switch"})
"""Ops that pass a handle on; with a value they are the same ops with another T."""

FUSED_BATCH_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})
"""Batch norm in one op: inputs x, scale, offset, mean, variance; outputs y, mean, variance."""

DROPPED_ATTRIBUTES = frozenset({"_output_shapes"})
"""What an exported graph leaves out: shapes that TensorFlow infers anew and drops itself."""

COLOCATION_ATTRIBUTE = "_class"
COLOCATION_PREFIX = b"loc:@"

SESSION_ATTRIBUTE = "config_proto"
"""Of a call of a function: the session it was traced in, with its devices; may be empty."""

_WRITES = re.compile(
    r"Assign(Add|Sub)?(VariableOp)?|AssignVariableXlaConcatND"
    r"|(Resource)?(Sparse)?Apply[A-Z]\w*"
    r"|(Resource)?Scatter(Nd)?(Add|Sub|Mul|Div|Min|Max|Update)"
    r"|(Resource)?StridedSliceAssign|(Resource)?CountUpTo"
)
_ASSIGNMENTS = re.compile(r"Assign(Add|Sub)?(VariableOp)?")
_SUMMARIES = re.compile(
    r"(Audio|Histogram|Image|Merge|Scalar|Tensor)Summary(V2)?"
    r"|Write(Audio|Graph|Histogram|Image|RawProto|Scalar)?(Proto)?Summary"
    r"|(Flush|Close)SummaryWriter|ImportEvent"
)
_SAVES = frozenset(
    {
        "MergeV2Checkpoints",
        "Restore",
        "RestoreSlice",
        "RestoreV2",
        "Save",
        "SaveSlices",
        "SaveV2",
        "ShardedFilename",
        "ShardedFilespec",
    }
)


def writes_variable(op: str) -> bool:
    """Whether an op changes a variable: assignments, scatter updates, optimiser steps."""
    return _WRITES.fullmatch(op) is not None


def is_assignment(op: str) -> bool:
    """Whether an op gives a variable a value of its own shape, or adds or subtracts one."""
    return _ASSIGNMENTS.fullmatch(op) is not None


def is_summary(op: str) -> bool:
    """Whether an op makes or writes what TensorBoard shows."""
    return _SUMMARIES.fullmatch(op) is not None


def is_saving(op: str) -> bool:
    """Whether an op belongs to a Saver."""
    return op in _SAVES


def is_bookkeeping(op: str) -> bool:
    """Whether an op is of no use once the variables are constants: writes, summaries, savers."""
    return writes_variable(op) or is_summary(op) or is_saving(op)
