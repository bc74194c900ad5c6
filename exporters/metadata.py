"""What travels inside an exported model: class names, preprocessing, where the answers are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from checkpoints.errors import GraphError, listed
from checkpoints.messages import DataType, NodeDef
from exporters.graph import Graph
from exporters.names import METADATA_NODE

FORMAT_VERSION = 1
"""Raised when a reader of an older version could misunderstand what is written."""

MAX_METADATA_BYTES = 1 << 24
"""A longer text is not read: ImageNet's 21,841 class names need a fiftieth of it."""

IN_GRAPH = "in_graph"
"""Key of a preprocessing that the graph does itself: the tensor that holds what it gives."""

OUTPUT_ROLES = ("probabilities", "logits", "bottleneck")


def _created_by() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"slimtune {version('slimtune')}"
    except PackageNotFoundError:
        return "slimtune"


@dataclass(frozen=True)
class Metadata:
    """What a program needs to use an exported model.

    Attributes:
      classes: the class names in the order of the logits; any text.
      label_offset: what is added to a 0-based class of the data set to give the model's class.
      preprocessing: how pictures become the input; finetune's description of it, a JSON object.
      image_size: height and width of the input in pixels.
      input: tensor that takes the pictures, [batch, height, width, 3] float32.
      outputs: role (probabilities, logits, bottleneck) -> tensor.
      net: name of the net.
      step: the training step of the weights; None where it is not known.
      multi_label: whether a picture may have several classes: each probability is a class's own,
        a sigmoid, and they do not add up to 1.
      created_by: the program that wrote it.
      format_version: of this description.
    """

    classes: tuple[str, ...] = ()
    label_offset: int = 0
    preprocessing: Mapping[str, Any] | None = None
    image_size: int | None = None
    input: str | None = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    net: str | None = None
    step: int | None = None
    multi_label: bool = False
    created_by: str = field(default_factory=_created_by)
    format_version: int = FORMAT_VERSION

    def as_json(self) -> dict[str, Any]:
        """The JSON object, its keys in the order of the attributes; multi_label where it is true."""
        value = asdict(self)
        value["classes"] = list(self.classes)
        if not self.multi_label:
            del value["multi_label"]
        return {"format_version": value.pop("format_version"), **value}

    def to_text(self) -> str:
        """The JSON text that a .pb holds: one line, names as they are."""
        return json.dumps(self.as_json(), ensure_ascii=False)


def metadata_from_text(text: str | bytes, source: str) -> Metadata:
    """Reads the JSON text of a Metadata. What it does not know it leaves alone.

    Args:
      text: UTF-8 where it is bytes.
      source: the file, for messages.

    Raises:
      GraphError: it is too long, no JSON, or a field is of the wrong type; all are named.
    """
    where = f"{source}, {METADATA_NODE}"
    if len(text) > MAX_METADATA_BYTES:
        raise GraphError(
            f"{where}: the metadata is too long.",
            expected=f"at most {MAX_METADATA_BYTES} bytes",
            received=f"{len(text)} bytes",
        )
    try:
        value = json.loads(text)
        # A lone surrogate gets through JSON as an escape and could never be written again.
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise GraphError(
            f"{where}: the metadata is not JSON.",
            expected="a JSON object in UTF-8",
            received=error,
        ) from error
    return metadata_from_json(value, where)


def metadata_from_json(value: Any, where: str) -> Metadata:
    """Builds a Metadata from a JSON object, every field checked.

    Raises:
      GraphError: a field is of the wrong type, or the format version is a later one.
    """
    if not isinstance(value, dict):
        raise GraphError(
            f"{where}: the metadata is not an object.",
            expected="a JSON object",
            received=type(value).__name__,
        )
    format_version = value.get("format_version", FORMAT_VERSION)
    if isinstance(format_version, int) and format_version > FORMAT_VERSION:
        raise GraphError(
            f"{where}: the metadata is of a later version of slimtune.",
            expected=f"format_version {FORMAT_VERSION} or lower",
            received=format_version,
            next_step="pip install -U slimtune",
        )
    checks = {
        "format_version": (_is_count, "a whole number"),
        "classes": (_is_class_names, "a list of texts without line breaks"),
        "label_offset": (_is_whole, "a whole number"),
        "preprocessing": (_is_object_or_null, "an object"),
        "image_size": (_is_count_or_null, "a positive whole number"),
        "input": (_is_text_or_null, "a tensor's name"),
        "outputs": (_is_text_map, "an object of tensor names"),
        "net": (_is_text_or_null, "a text"),
        "step": (_is_whole_or_null, "a whole number"),
        "multi_label": (_is_flag, "true or false"),
        "created_by": (_is_text, "a text"),
    }
    problems = [
        f"{name}: expected {expected}, received {_short(value[name])}"
        for name, (check, expected) in checks.items()
        if name in value and not check(value[name])
    ]
    if problems:
        raise GraphError(f"{where}: the metadata is not what it should be:\n{listed(problems)}")
    known = {name: value[name] for name in checks if name in value}
    if "classes" in known:
        known["classes"] = tuple(known["classes"])
    return Metadata(**known)


def read_metadata(graph: Graph) -> Metadata | None:
    """The metadata inside a graph, or None where it has none.

    Raises:
      GraphError: there is some and it cannot be used.
    """
    node = graph.nodes.get(METADATA_NODE)
    if node is None:
        return None
    tensor = node.attr["value"].tensor if "value" in node.attr else None
    if node.op != "Const" or tensor is None or len(tensor.string_val) != 1:
        raise GraphError(
            f"{graph.label} has a node {METADATA_NODE} that is no metadata.",
            expected="a Const with one string",
            received=node.op,
        )
    return metadata_from_text(tensor.string_val[0], graph.label)


def stored_metadata(values: Any) -> Metadata | None:
    """The metadata that a file of arrays carries beside its variables, or None.

    Raises:
      GraphError: there is some and it cannot be used.
    """
    text = getattr(values, "metadata", {}).get(METADATA_NODE)
    return None if text is None else metadata_from_text(text, values.label)


def metadata_node(metadata: Metadata) -> NodeDef:
    """The Const node that carries `metadata` in a .pb: dtype string, shape []."""
    node = NodeDef(name=METADATA_NODE, op="Const")
    node.attr["dtype"].type = DataType.DT_STRING
    tensor = node.attr["value"].tensor
    tensor.dtype = DataType.DT_STRING
    tensor.tensor_shape.SetInParent()
    tensor.string_val.append(metadata.to_text().encode("utf-8"))
    return node


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_count(value: Any) -> bool:
    return _is_whole(value) and value > 0


def _is_whole_or_null(value: Any) -> bool:
    return value is None or _is_whole(value)


def _is_count_or_null(value: Any) -> bool:
    return value is None or _is_count(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_class_names(value: Any) -> bool:
    """Names that are a line each in labels.txt and in what a person reads."""
    return isinstance(value, list) and all(
        _is_text(name) and not set("\n\r\0") & set(name) for name in value
    )


def _is_object_or_null(value: Any) -> bool:
    return value is None or isinstance(value, dict)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
