"""Puts constants in the place of the placeholders that say how a graph is to behave."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from checkpoints import dtypes
from checkpoints.errors import GraphError, UsageError, near_names
from checkpoints.messages import NodeDef
from exporters.constants import Array
from exporters.evaluation import Evaluator
from exporters.graph import Graph
from exporters.inspecting.endpoints import PLACEHOLDERS
from exporters.names import IMPORT_PREFIX, TensorName, tensor_of
from exporters.rewrites.draft import Draft
from exporters.rewrites.setting_uses import SettingUses

_TRAINING = re.compile(
    r"(\w+_)?is_?train(ing)?(_?(phase|mode|flag|placeholder|ph))?"
    r"|(in_?)?train(ing)?(_?(phase|mode|flag|placeholder|ph))?"
    r"|(is_?)?phase(_?train(ing)?)?|(keras_)?learning_phase"
)
_SERVING = re.compile(
    r"(is_?)?(test|testing|inference|eval|evaluate|evaluation|validation|prediction)"
    r"(_?(phase|mode|flag|placeholder|ph))?"
)
_KEPT_SHARE = re.compile(
    r"(dropout_?)?keep(_?(prob|probs|rate|ratio|probability))?(_?(dropout|placeholder|ph))?"
)
_DROPPED_SHARE = re.compile(r"(dropout|drop|dropconnect)_?(rate|ratio)|drop_?prob(ability)?")

_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Settings(NamedTuple):
    """A draft whose settings are constants.

    Attributes:
      draft: the draft.
      values: placeholder -> the value it has now.
    """

    draft: Draft
    values: dict[TensorName, Array]


def parse_settings(texts: Iterable[str] | Mapping[str, Any]) -> dict[str, str]:
    """Reads `NAME=VALUE`, several of them separated by commas too, or a mapping.

    Raises:
      UsageError: an entry has no equals sign, or a name has two values.
    """
    if isinstance(texts, Mapping):
        return {name.strip(): _as_text(value) for name, value in texts.items()}
    settings: dict[str, str] = {}
    for text in texts:
        for entry in filter(None, map(str.strip, text.split(","))):
            name, equals, value = (part.strip() for part in entry.partition("="))
            if not equals or not name or not value:
                raise UsageError(
                    f"{entry} sets nothing.",
                    expected="NAME=VALUE, as in is_training=false or keep_prob=1.0",
                    received=entry,
                )
            if settings.get(name, value) != value:
                raise UsageError(f"{name} is set twice.", received=f"{settings[name]}, {value}")
            settings[name] = value
    return settings


def fold_settings(
    draft: Draft, requested: Mapping[TensorName, str], known_names: bool = True
) -> Settings:
    """Makes constants of placeholders: those requested, and scalars with names all nets use.

    `is_training`, `phase_train` and their like become false, `keep_prob` 1, `dropout_rate` 0, where
    they choose between branches or say how much is dropped. A PlaceholderWithDefault of another
    name that does becomes its default. All others are data, and stay.

    Args:
      draft: a graph, whole or in part.
      requested: placeholder -> value as text, as `parse_settings` gives them.
      known_names: whether placeholders nobody requested are looked at.

    Raises:
      UsageError: a value does not fit its placeholder.
    """
    graph = draft.graph
    values: dict[TensorName, Array] = {}
    said = []
    for tensor, text in requested.items():
        values[tensor] = _requested_value(graph, tensor, text)
        said.append(f"{tensor.node} is {_shown(values[tensor])}, as requested.")
    known = KnownSettings(graph)
    for name, node in graph.nodes.items() if known_names else ():
        tensor = TensorName(name)
        if node.op in PLACEHOLDERS and tensor not in values and tensor not in draft.kept:
            found = known.of(node)
            if found is not None:
                values[tensor] = found.value
                said.append(f"{name} is {_shown(found.value)}, {found.reason}.")
    changes = draft.changes()
    for tensor, value in values.items():
        changes.put(_constant(tensor.node, value))
    return Settings(draft.changed(changes, *said), values)


def find_placeholder(graph: Graph, name: str) -> TensorName:
    """The placeholder that a typed name means; an `import/` prefix too many or too few is forgiven.

    Raises:
      GraphError: there is no such node; near names are given.
      UsageError: it is no placeholder.
    """
    typed = tensor_of(name).node
    for node in (typed, typed.removeprefix(IMPORT_PREFIX), IMPORT_PREFIX + typed):
        if node in graph.nodes:
            if graph.nodes[node].op in PLACEHOLDERS:
                return TensorName(node)
            raise UsageError(
                f"{graph.label}: {node} is no placeholder, so it cannot be set.",
                expected="a placeholder",
                received=graph.nodes[node].op,
            )
    names = [node.name for node in graph.nodes.values() if node.op in PLACEHOLDERS]
    near = near_names(typed, names)
    raise GraphError(
        f"{graph.label} has no placeholder {typed!r}, named to be set.",
        expected=f"one of {', '.join(near or names[:5]) or 'none: the graph has no placeholders'}",
        received=name,
        next_step=f"--set {near[0]}=VALUE" if near else None,
    )


class Setting(NamedTuple):
    """What a placeholder is in inference.

    Attributes:
      value: a scalar of its dtype.
      reason: why, as the end of a sentence.
    """

    value: Array
    reason: str


class KnownSettings:
    """What the placeholders of one graph are in inference without being told."""

    def __init__(self, graph: Graph) -> None:
        """Looks at nothing yet."""
        self._graph = graph
        self._uses = SettingUses(graph)
        self._evaluator = Evaluator(graph)

    def of(self, node: NodeDef) -> Setting | None:
        """What a placeholder is: by its name, else its constant default; None where it is data."""
        value = _by_name(self._graph, node)
        if value is not None:
            is_setting = self._uses.is_setting(node.name)
            return Setting(value, "as everywhere in inference") if is_setting else None
        if node.op != "PlaceholderWithDefault":
            return None
        value = _default(self._graph, node, self._evaluator)
        if value is None:
            return None
        is_switch = value.dtype.kind == "b" and self._uses.chooses(node.name)
        is_setting = is_switch or self._uses.drops(node.name)
        return Setting(value, "its default") if is_setting else None


def _by_name(graph: Graph, node: NodeDef) -> Array | None:
    number = node.attr["dtype"].type if "dtype" in node.attr else 0
    shape = graph.shape(TensorName(node.name))
    if not number or shape not in (None, ()):
        return None
    dtype = dtypes.of_number(number).numpy
    word = re.sub(r"_\d+$", "", node.name.split("/")[-1].lower())
    # A number of unknown shape may be anything; a bool of unknown shape is a setting.
    if dtype.kind == "b" or (dtype.kind in "iu" and shape == ()):
        if _TRAINING.fullmatch(word):
            return np.zeros((), dtype)
        if _SERVING.fullmatch(word):
            return np.ones((), dtype)
    elif dtype.kind == "f" or dtype.name == "bfloat16":
        if _KEPT_SHARE.fullmatch(word):
            return np.ones((), dtype)
        if _DROPPED_SHARE.fullmatch(word):
            return np.zeros((), dtype)
    return None


def open_settings(graph: Graph, names: Iterable[str]) -> list[str]:
    """Of some nodes, the placeholders of one truth value each: what `--set` could decide."""
    return [
        name
        for name in names
        if graph.nodes[name].op in PLACEHOLDERS
        and "dtype" in graph.nodes[name].attr
        and graph.nodes[name].attr["dtype"].type == dtypes.of_numpy(np.dtype(bool)).number
        and graph.shape(TensorName(name)) in (None, ())
    ]


def _default(graph: Graph, node: NodeDef, evaluator: Evaluator) -> Array | None:
    """What a placeholder of one element is where nobody feeds it."""
    inputs = graph.data_inputs(node.name)
    value = evaluator.value(inputs[0]) if inputs else None
    return value if value is not None and value.ndim == 0 else None


def _requested_value(graph: Graph, tensor: TensorName, text: str) -> Array:
    node = graph.nodes[tensor.node]
    shape = graph.shape(tensor)
    if shape not in (None, ()):
        raise UsageError(
            f"{graph.label}: {tensor.node} takes more than one value.",
            expected="a placeholder of one value",
            received=f"shape {list(shape or ())}",
        )
    dtype = dtypes.of_number(node.attr["dtype"].type if "dtype" in node.attr else 0)
    value = _read(text, dtype)
    if value is None:
        raise UsageError(
            f"{tensor.node} cannot be {text}.", expected=f"a {dtype.name}", received=text
        )
    return value


def _read(text: str, dtype: dtypes.DType) -> Array | None:
    if dtype.is_string:
        value = np.empty((), object)
        value[()] = text.encode("utf-8")
        return value
    kind = dtype.numpy.kind
    try:
        if kind == "b":
            return np.array(_WORDS[text.lower()], bool)
        if kind in "iu":
            return np.array(int(text), dtype.numpy)
        return np.array(float(text)).astype(dtype.numpy)
    except (KeyError, ValueError, OverflowError):
        return None


def _constant(name: str, value: Array) -> NodeDef:
    dtype = dtypes.of_numpy(value.dtype)
    node = NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype.number
    tensor = node.attr["value"].tensor
    tensor.dtype = dtype.number
    tensor.tensor_shape.SetInParent()
    if dtype.is_string:
        tensor.string_val.append(value.item())
    else:
        tensor.tensor_content = value.tobytes()
    return node


def _as_text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _shown(value: Array) -> str:
    if value.dtype == object:
        return repr(value.item().decode("utf-8", "replace"))
    return str(value.item()).lower()
