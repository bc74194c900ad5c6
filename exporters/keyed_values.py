"""Variables of an object-based checkpoint, found under their keys as well as under their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checkpoints.mapping import SavedVariables
from checkpoints.tensors import Array, Variable


class KeyedValues(Mapping[str, Array]):
    """Variables by name; each is there under its key in the file too, without being listed twice.

    Attributes:
      variables: name or key -> dtype and shape.
      label: the path of the checkpoint.
      metadata: what the file says beside its variables.
    """

    def __init__(self, saved: SavedVariables, keys: Mapping[str, str]) -> None:
        """Adds keys to names.

        Args:
          saved: the variables by name.
          keys: name -> key; of names that are not among the variables nothing is taken.
        """
        self._saved = saved
        self._keys = keys
        self._names = {key: name for name, key in keys.items() if name in saved}
        self.label = saved.label
        self.metadata = saved.metadata
        self.variables: dict[str, Variable] = dict(saved.variables)
        for key, name in self._names.items():
            self.variables.setdefault(key, saved.variables[name])

    def __getitem__(self, name: str) -> Array:
        return self._saved[self._name(name)]

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian; uncopied where possible."""
        return self._saved.bytes_of(self._name(name))

    def source_of(self, name: str) -> str:
        """The key of a variable in the file."""
        return self._keys.get(name, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._saved)

    def __len__(self) -> int:
        return len(self._saved)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def _name(self, name: str) -> str:
        return name if name in self._saved else self._names.get(name, name)
