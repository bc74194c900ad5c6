"""Seeded mutations of bytes, of text, of JSON and of protobuf messages."""

from __future__ import annotations

import copy
import json
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

Mutate = Callable[[bytes, Random], bytes]

INTEGERS = (0, 1, 2, 7, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
            2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)  # fmt: skip
"""Numbers at which something wraps, ends or becomes too much."""

_BYTES = (0, 1, 2, 8, 10, 18, 26, 34, 127, 128, 255)
_VARINTS = (b"\0", b"\x7f", b"\x80\x01", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f",
            b"\x80\x80\x80\x80\x80\x20", b"\xff" * 8 + b"\x7f", b"\xff" * 9 + b"\x01",
            b"\xff" * 9 + b"\x7f", b"\x80" * 12)  # fmt: skip
_WIDTHS = ("B", "<H", ">H", "<I", ">I", "<Q", ">Q")
_MOST_BYTES = 1 << 17

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*|[-+]?[\d.]+(?:[eE][-+]?\d+)?|\s+|.', re.DOTALL)
_TOKENS = ("", "0", "-1", "1", "1e400", "-1e308", "1.5", "NaN", "-Infinity", "inf", "null", "None", "true",
           "False", '""', '"\\ud800"', '"\\u0000"', '"\0"', '"', "'", "[", "]", "{", "}", "(", ")", "<", ">",
           "[]", "{}", ",", ":", "\n", "\r", "\0", "\ufeff", "\\", "\x1b[2J", "../../x", "9" * 400,
           "9" * 5000, "1_0", "0x10", "#", "é", "\U0001f600", "%s", "{0}")  # fmt: skip
_DEPTHS = (2, 40, 150, 1200, 20_000)
_VALUES = (None, True, False, 0, 1, -1, 2, 10**6, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**400,
           0.5, -0.5, 1e308, float("nan"), float("inf"), "", "a", "\0", "\ud800", "../../x", "/x",
           "x" * 5000, "1:all", "1e:all", "a=1", "9" * 5000, [], [[]], [None], [1], ["a"], ["a", "a"],
           [10**400], {}, {"a": 1}, {"": None})  # fmt: skip
_TEXTS = (
    "",
    "\0",
    "a",
    "^a",
    "a:1",
    "a:99999999999999999999",
    ":",
    ":0",
    "x" * 3000,
    "../../x",
    "é",
    "%d",
)
_FLOATS = (0.0, -1.0, 1e300, float("nan"), float("inf"), -float("inf"), 1e-300)


def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Changes a few bytes: bits, values, numbers, lengths; cuts, inserts, repeats and moves."""
    result = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        place = random.randrange(len(result) + 1)
        end = min(len(result), place + random.choice((1, 2, 4, 8, 30, 200)))
        match random.randrange(10):
            case 0 if place < len(result):
                result[place] ^= 1 << random.randrange(8)
            case 1 if place < len(result):
                result[place] = random.choice(_BYTES)
            case 2 if place < len(result):
                result[place] = random.randrange(256)
            case 3:
                width = random.choice(_WIDTHS)
                number = random.choice(INTEGERS) & (1 << 8 * struct.calcsize(width)) - 1
                packed = struct.pack(width, number)
                result[place : place + len(packed)] = packed
            case 4:
                result[place : place + random.choice((0, 1, 1, 2))] = random.choice(_VARINTS)
            case 5:
                del result[place:]
            case 6:
                del result[place:end]
            case 7:
                result[place:place] = result[place:end] * random.choice((1, 1, 2, 9))
            case 8:
                result[place:place] = random.randbytes(random.choice((1, 2, 4, 16)))
            case _:
                start = random.randrange(len(result) + 1)
                result[place:end] = result[start : start + end - place]
    return bytes(result[:_MOST_BYTES])


def splice(data: bytes, other: bytes, random: Random) -> bytes:
    """The beginning of one file and the end of another."""
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def mutate_text(data: bytes, random: Random) -> bytes:
    """Changes a few words, numbers, quotes or brackets of a text, or nests one without end."""
    tokens = _TOKEN.findall(data.decode("utf-8", "surrogateescape"))
    for _ in range(random.choice((1, 1, 2, 3))):
        place = random.randrange(len(tokens) + 1)
        end = min(len(tokens), place + random.choice((1, 1, 2, 5, 20)))
        match random.randrange(7):
            case 0 | 1:
                tokens[place : place + 1] = [random.choice(_TOKENS)]
            case 2:
                tokens[place:place] = [random.choice(_TOKENS)]
            case 3:
                del tokens[place:end]
            case 4:
                tokens[place:place] = tokens[place:end] * random.choice((1, 1, 3))
            case 5 if tokens:
                other = random.randrange(len(tokens))
                tokens[place : place + 1] = [tokens[other]]
            case 6 if random.random() < 0.05:
                opening, closing = random.choice(("[]", "{}", "()", ("a{", "}"), ('{"a":', "}")))
                depth = random.choice(_DEPTHS)
                tokens[place:place] = [opening * depth, "1", closing * depth]
    return "".join(tokens).encode("utf-8", "surrogateescape")[:_MOST_BYTES]


def mutate_json(data: bytes, random: Random) -> bytes:
    """Changes values and keys of a JSON text that stays one; of what is none, words."""
    try:
        root = json.loads(data)
    except ValueError:
        return mutate_text(data, random)
    for _ in range(random.choice((1, 1, 2, 3))):
        root = _changed(root, random)
    return json.dumps(root).encode("ascii")


def _changed(value: Any, random: Random) -> Any:
    """A JSON value with one of the values in it replaced, removed, added or moved."""
    if not isinstance(value, dict | list) or not value or random.random() < 0.1:
        return copy.deepcopy(random.choice(_VALUES))
    key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
    match random.randrange(12):
        case 0:
            del value[key]
        case 1:
            other = random.choice(list(value.values() if isinstance(value, dict) else value))
            value[key] = copy.deepcopy(other)
        case 2 if isinstance(value, dict):
            value[random.choice(("", "a", "\0", "\ud800", "__metadata__"))] = value[key]
        case 3 if isinstance(value, list):
            value.append(copy.deepcopy(value[key]))
        case _:
            value[key] = _changed(value[key], random)
    return value


def mutate_message(kind: Any) -> Mutate:
    """A mutation of the values in a serialised message of a class, which stays one."""

    def mutate(data: bytes, random: Random) -> bytes:
        try:
            message = kind.FromString(data)
        except DecodeError:
            return mutate_bytes(data, random)
        for _ in range(random.choice((1, 1, 2, 3, 5))):
            _change_message(message, random)
        return bytes(message.SerializePartialToString())

    return mutate


def _change_message(message: Any, random: Random) -> None:
    """Goes down to a field somewhere in a message and gives it another value."""
    while True:
        if not message.DESCRIPTOR.fields:
            return
        filled = message.ListFields()
        if not filled or random.random() < 0.06:
            field = random.choice(message.DESCRIPTOR.fields)
        else:
            field = random.choice(filled)[0]
        value = getattr(message, field.name)
        if _is_map(field):
            inner = _change_map(field, value, random)
        elif field.is_repeated:
            inner = _change_list(field, value, random)
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            setattr(message, field.name, _value(field, random))
            return
        elif random.random() < 0.06:
            message.ClearField(field.name)
            return
        else:
            inner = value
            inner.SetInParent()
        if inner is None:
            return
        message = inner


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _change_map(field: Any, value: Any, random: Random) -> Any:
    """Changes a map, or gives the message in it that is to be changed."""
    of = field.message_type.fields_by_name["value"]
    key_kind = field.message_type.fields_by_name["key"]
    keys = list(value)
    key = random.choice(keys) if keys else _value(key_kind, random)
    if random.random() < 0.1:
        key = _value(key_kind, random)
    if keys and random.random() < 0.1:
        del value[random.choice(keys)]
        return None
    if of.type == FieldDescriptor.TYPE_MESSAGE:
        return value[key]
    value[key] = _value(of, random)
    return None


def _change_list(field: Any, values: Any, random: Random) -> Any:
    """Changes a list, or gives the message in it that is to be changed."""
    is_message = field.type == FieldDescriptor.TYPE_MESSAGE
    place = random.randrange(len(values)) if values else 0
    chance = random.random()
    if values and chance < 0.08:
        del values[place]
    elif values and chance < 0.16:
        values.append(values[place])
    elif values and chance < 0.2:
        del values[:]
    elif not values or chance < 0.26:
        if is_message:
            return values.add()
        values.append(_value(field, random))
    elif is_message:
        return values[place]
    else:
        values[place] = _value(field, random)
    return None


def _value(field: Any, random: Random) -> Any:
    """A value for a field that is no message."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = random.choice(_TEXTS)
        if field.type == FieldDescriptor.TYPE_STRING:
            return text
        return random.choice((text.encode(), random.randbytes(random.choice((0, 1, 4, 16)))))
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return random.choice(_FLOATS)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice((0, 1, 3, 7, 14, 19, 20, 21, 23, 99, 101, 120))
    number = random.choice(INTEGERS) if random.random() < 0.7 else random.randrange(12)
    bits = 64 if "64" in _NAMES[kind] else 32
    number &= (1 << bits) - 1
    is_signed = not _NAMES[kind].startswith("U")
    return number - (1 << bits) if is_signed and number >> (bits - 1) else number


_NAMES = {
    FieldDescriptor.CPPTYPE_INT32: "INT32",
    FieldDescriptor.CPPTYPE_INT64: "INT64",
    FieldDescriptor.CPPTYPE_UINT32: "UINT32",
    FieldDescriptor.CPPTYPE_UINT64: "UINT64",
}


def one_of(*mutations: Mutate, weights: Sequence[int] | None = None) -> Mutate:
    """One of several mutations each time."""

    def mutate(data: bytes, random: Random) -> bytes:
        return random.choices(mutations, weights)[0](data, random)

    return mutate
