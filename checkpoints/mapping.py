"""What every set of saved variables is: a mapping that knows dtypes and shapes without values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np

from checkpoints.names import Role, role
from checkpoints.tensors import Array, Variable, describe, dtype_of, little_endian_bytes


class SavedVariables(Mapping[str, Array]):
    """Names to arrays; dtypes and shapes are known before a value is read.

    Attributes:
      variables: name, dtype and shape of every variable, by name.
      label: what it is for people: the path of a file.
      metadata: what a file says beside the variables, as text by key; nothing where its form
        has no place for such.
    """

    variables: Mapping[str, Variable]
    label: str
    metadata: Mapping[str, str]

    @abstractmethod
    def __getitem__(self, name: str) -> Array:
        """The values of one variable."""

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian."""
        return little_endian_bytes(self[name])

    def role(self, name: str) -> Role:
        """What a variable is for."""
        return role(name, self.variables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables


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
            array = np.asarray(variables[name])
            found[name] = describe(name, dtype_of(array, name), array.shape)
    return found


def as_key(name: str) -> bytes:
    """The order of names in a file is that of their bytes."""
    return name.encode("utf-8")
