"""What every set of saved variables is: a mapping that knows dtypes and shapes without values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from checkpoints.errors import SlimtuneError, UnsupportedError, listed
from checkpoints.names import Role, role
from checkpoints.tensors import (
    Array,
    Variable,
    as_array,
    describe,
    dtype_of,
    little_endian_bytes,
)


class SavedVariables(Mapping[str, Array]):
    """Names to arrays; dtypes and shapes are known before a value is read.

    Attributes:
      variables: name, dtype and shape of every variable, by name.
      label: what it is for people: the path of a file.
      metadata: what a file says beside the variables, as text by key; nothing where its form
        has no place for such.
      unreadable: what a file holds beside the variables and nobody can read (arrays of Python
        objects or dates in an npz): name -> what is wrong with it.
    """

    variables: Mapping[str, Variable]
    label: str
    metadata: Mapping[str, str]
    unreadable: Mapping[str, SlimtuneError] = MappingProxyType({})

    @abstractmethod
    def __getitem__(self, name: str) -> Array:
        """The values of one variable."""

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian."""
        return little_endian_bytes(self[name])

    def role(self, name: str) -> Role:
        """What a variable is for."""
        return role(name, self.variables)

    def count_parameters(self, names: Iterable[str] | None = None) -> int:
        """How many numbers the net's own variables hold: no slots, averages, steps, flags or texts.

        Args:
          names: only those of these; left out, of all.
        """
        return sum(
            self.variables[name].num_elements
            for name in (self.variables if names is None else names)
            if self.variables[name].dtype_name not in ("string", "bool")
            and self.role(name) == "model"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables


def refuse_unreadable(saved: SavedVariables, names: Iterable[str] | None = None) -> None:
    """Raises UnsupportedError where something is asked for that nobody can read; None asks for all."""
    asked = saved.unreadable if names is None else names
    problems = [saved.unreadable[name].message for name in asked if name in saved.unreadable]
    if problems:
        raise UnsupportedError(
            f"{saved.label} holds what is no variable:\n{listed(problems)}",
            expected="numbers, booleans, or strings of fixed width",
            next_step="Leave it out: slimtune convert SRC DST --exclude REGEX",
        )


def described(variables: Mapping[str, Array]) -> dict[str, Variable]:
    """Name, dtype and shape of every variable, in the order of the names' bytes.

    Raises:
      UnsupportedError: TensorFlow has no dtype for a value; names the variable.
    """
    known = variables.variables if isinstance(variables, SavedVariables) else None
    found = {}
    for name in sorted(variables, key=as_key):
        if known is not None:
            found[name] = known[name]
        else:
            array = as_array(variables[name], name)
            found[name] = describe(name, dtype_of(array, name), array.shape)
    return found


def as_key(name: str) -> bytes:
    """The order of names in a file is that of their bytes."""
    return name.encode("utf-8")
