"""Object-based checkpoints: V2 files whose keys are paths through a program's objects.

tf.train.Checkpoint, Keras and SavedModels of TensorFlow 2 write them. A variable's key is the way
to it, as in `model/layer/kernel/.ATTRIBUTES/VARIABLE_VALUE`, and a string under one more key
holds the graph of the objects (a TrackableObjectGraph): their children, the name each variable
was given when it was made, and which variables are an optimiser's slots. Here such a checkpoint
looks like the one that tf.compat.v1.train.Saver would have written: variables under their names.

Source:
  TensorFlow's tensorflow/core/protobuf/trackable_object_graph.proto; docs/formats/object-based.md.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import DecodeError

from checkpoints.bundle import Bundle
from checkpoints.errors import BrokenFileError, SlimtuneError, counted
from checkpoints.mapping import as_key
from checkpoints.messages import TrackableObjectGraph
from checkpoints.names import OBJECT_GRAPH_KEY, VARIABLE_VALUE, Role, role
from checkpoints.tensors import Array, Variable, lower_first
from checkpoints.wire import LENGTH_DELIMITED, scan

MAX_GRAPH_BYTES = 1 << 26
MAX_OBJECT_BYTES = 1 << 20
MAX_OBJECTS = 500_000
"""What is parsed: a model of ten thousand variables needs a tenth of it or less. Objects are
parsed one by one, since a parsed message may take forty times the room of its bytes."""

_VALUE_ATTRIBUTE = "VARIABLE_VALUE"
_NODES_FIELD = 1
# Where tf.train.Checkpoint(step=...) keeps it.
_STEP_KEY = f"step{VARIABLE_VALUE}"
_METRICS = "keras_api/metrics/"

# Keras' optimisers since 2.11 keep their variables in lists of their own.
_KERAS_OPTIMIZER = {"_variables", "_iterations"}
_LIST_ROLES: dict[str, Role] = {
    "_trainable_variables": "model",
    "_model_variables_moving_average": "ema",
}
_STRONGER: dict[Role, int] = {"model": 2, "ema": 1, "slot": 0}

_ROUNDS = 8


@dataclass(frozen=True)
class ObjectNames:
    """How the variables of an object-based checkpoint are called.

    Attributes:
      keys: plain name -> key in the index; empty where variables are listed under their keys.
      roles: plain name -> role, as far as the object graph tells it.
      notes: what had to be done, a line each.
    """

    keys: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, Role] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObjectGraph:
    """What an object graph says of the variables, by their keys.

    Attributes:
      full_names: the name each was given; none where two objects give one key two names.
      roles: which belong to optimisers, and which optimisers say are the model's.
    """

    full_names: Mapping[str, str]
    roles: Mapping[str, Role]


class ObjectBundle:
    """An object-based checkpoint under plain names; values come from the bundle.

    Attributes:
      variables: by plain name, in the order of the names.
    """

    def __init__(self, bundle: Bundle, keys: Mapping[str, str]) -> None:
        """Made by `named_objects`."""
        self._bundle = bundle
        self._keys = keys
        self.variables: dict[str, Variable] = {
            name: replace(bundle.variables[keys[name]], name=name)
            for name in sorted(keys, key=as_key)
        }

    def read(self, name: str) -> Array:
        """The values of one variable."""
        return self._bundle.read(self._keys[name])

    def tensor_bytes(self, name: str) -> memoryview:
        """The values of a variable of numbers, in C order, little-endian."""
        return self._bundle.tensor_bytes(self._keys[name])


def named_objects(bundle: Bundle, plain: bool) -> tuple[Bundle | ObjectBundle, ObjectNames]:
    """An object-based checkpoint under the names of its variables, and how they came about.

    Where names are not wanted, or the object graph is damaged or larger than any model's, the
    checkpoint stays under its keys; the latter is noted.
    """
    notes = tuple(
        f"{key} holds a {dtype}, which cannot be read: it is left out."
        for key, dtype in bundle.left_out.items()
    )
    if not plain:
        return bundle, ObjectNames(notes=notes)
    try:
        graph = parse_object_graph(_graph_bytes(bundle), bundle.variables)
    except SlimtuneError as error:
        note = (
            f"The object graph cannot be read ({lower_first(error.message).rstrip('.')}):"
            " variables are listed under their keys."
        )
        return bundle, ObjectNames(notes=(*notes, note))
    names, shared = plain_names(
        [key for key in bundle.variables if key != OBJECT_GRAPH_KEY], graph.full_names
    )
    roles = _roles(names, graph, bundle)
    keys = {name: key for key, name in names.items()}
    return ObjectBundle(bundle, keys), ObjectNames(keys, roles, notes + shared)


def parse_object_graph(data: bytes, keys: Collection[str]) -> ObjectGraph:
    """Reads what a serialised TrackableObjectGraph says of variables.

    The graph's edges are not followed but from an optimiser to its lists, so cycles are harmless.

    Args:
      data: the message.
      keys: the keys of the index; what is said of others is passed over.

    Raises:
      BrokenFileError: it is no such message, too large, or names objects that are not there.
    """
    return _Reader(data, keys).graph()


def plain_names(
    keys: Collection[str], full_names: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """A name of its own for every key.

    A variable has its full name; the path to it where it has none or several have the same; the
    key as it is where another has that too. What is no variable's value keeps its key.

    Returns:
      Key -> name, and a note where names were not unique.
    """
    ways = {key: list(_ways(key, full_names)) for key in keys}
    shared: list[str] = []
    for _ in range(_ROUNDS):
        counts = Counter(way[0] for way in ways.values())
        twice = [key for key, way in ways.items() if counts[way[0]] > 1]
        if not twice:
            break
        shared = shared or sorted({ways[key][0] for key in twice})
        for key in twice:
            ways[key] = ways[key][1:] or [key]
    else:
        ways = {key: [key] for key in keys}
    names = {key: way[0] for key, way in ways.items()}
    if not shared:
        return names, ()
    moved = sum(key in full_names and names[key] != full_names[key] for key in keys)
    note = (
        f"{counted(moved, 'variable')} listed by path or key, since several have one name,"
        f" as {shared[0]!r}."
    )
    return names, (note,)


def _ways(key: str, full_names: Mapping[str, str]) -> Iterator[str]:
    """What a key may be called, best first."""
    full_name = full_names.get(key)
    if full_name is not None:
        yield full_name
    path = key.removesuffix(VARIABLE_VALUE)
    if path:
        yield path
    yield key


def _roles(names: Mapping[str, str], graph: ObjectGraph, bundle: Bundle) -> dict[str, Role]:
    """Name -> role, where the graph or the path to the variable tells it."""
    roles: dict[str, Role] = {}
    for key, name in names.items():
        by_path: Role = "other" if f"/{_METRICS}" in f"/{key}" else role(key, names)
        variable = bundle.variables[key]
        if key == _STEP_KEY and not variable.shape and variable.dtype.kind in "iu":
            by_path = "step"
        if by_path in ("step", "other"):
            roles[name] = by_path
    return roles | {names[key]: known for key, known in graph.roles.items()}


def _is_keras_optimizer(node: Any) -> bool:
    return {child.local_name for child in node.children} >= _KERAS_OPTIMIZER


def _graph_bytes(bundle: Bundle) -> bytes:
    variable = bundle.variables[OBJECT_GRAPH_KEY]
    if variable.dtype_name != "string" or variable.shape:
        raise BrokenFileError(f"It is {variable.dtype_name} {list(variable.shape)}, not a string.")
    size = bundle.num_bytes(OBJECT_GRAPH_KEY)
    if size > MAX_GRAPH_BYTES:
        raise BrokenFileError(f"It takes {size} bytes, and {MAX_GRAPH_BYTES} are read at most.")
    data: bytes = bundle.read(OBJECT_GRAPH_KEY).item()
    return data


class _Reader:
    """Reads one object graph."""

    def __init__(self, data: bytes, keys: Collection[str]) -> None:
        self._data = data
        self._keys = keys
        self._starts, self._ends = array("q"), array("q")
        for part in scan(data):
            if part.number == _NODES_FIELD and part.wire_type == LENGTH_DELIMITED:
                self._starts.append(part.start)
                self._ends.append(part.end)
                if part.end - part.start > MAX_OBJECT_BYTES or len(self._ends) > MAX_OBJECTS:
                    raise BrokenFileError("It is larger than any model's.")
        self._full_names: dict[str, str] = {}
        self._ambiguous: set[str] = set()
        self._value_keys: dict[int, str] = {}
        self._slots: set[int] = set()
        self._optimizers: list[int] = []

    def graph(self) -> ObjectGraph:
        for index in range(len(self._starts)):
            self._read(index)
        roles = self._optimizer_roles()
        names = {key: name for key, name in self._full_names.items() if key not in self._ambiguous}
        return ObjectGraph(names, {self._value_keys[index]: role for index, role in roles.items()})

    def _object(self, index: int) -> Any:
        if not 0 <= index < len(self._starts):
            raise BrokenFileError(f"It names object {index} of {len(self._starts)}.")
        try:
            return TrackableObjectGraph.TrackableObject.FromString(
                self._data[self._starts[index] : self._ends[index]]
            )
        except DecodeError as error:
            raise BrokenFileError(f"Object {index} is damaged.") from error

    def _read(self, index: int) -> None:
        node = self._object(index)
        for attribute in node.attributes:
            key, name = attribute.checkpoint_key, attribute.full_name
            if attribute.name != _VALUE_ATTRIBUTE or key not in self._keys:
                continue
            self._value_keys.setdefault(index, key)
            usable = name and "\0" not in name and name != OBJECT_GRAPH_KEY
            if usable and self._full_names.setdefault(key, name) != name:
                self._ambiguous.add(key)
        for slot in node.slot_variables:
            if not 0 <= slot.slot_variable_node_id < len(self._starts):
                raise BrokenFileError(
                    f"It names object {slot.slot_variable_node_id} of {len(self._starts)}."
                )
            self._slots.add(slot.slot_variable_node_id)
        if node.slot_variables or _is_keras_optimizer(node):
            self._optimizers.append(index)

    def _optimizer_roles(self) -> dict[int, Role]:
        """Object -> role of the variables that optimisers hold."""
        roles: dict[int, Role] = {}

        def mark(index: int, new: Role) -> None:
            known = roles.get(index, new)
            if index in self._value_keys and _STRONGER[new] >= _STRONGER[known]:
                roles[index] = new

        for slot in self._slots:
            mark(slot, "slot")
        lists: set[tuple[int, Role]] = set()
        for optimizer in self._optimizers:
            for child in self._object(optimizer).children:
                part = _LIST_ROLES.get(child.local_name, "slot")
                mark(child.node_id, part)
                # Each list once: many optimisers may name one long list.
                if child.node_id in self._value_keys or (child.node_id, part) in lists:
                    continue
                lists.add((child.node_id, part))
                for entry in self._object(child.node_id).children:
                    if entry.local_name.isdecimal():
                        mark(entry.node_id, part)
        return roles
