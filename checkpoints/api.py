"""Opening and writing checkpoints: `checkpoints.open` and `checkpoints.write`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol

from checkpoints import dtypes
from checkpoints.bundle import Bundle
from checkpoints.bundle_writer import write_bundle
from checkpoints.errors import (
    CheckpointError,
    NotFoundError,
    SlimtuneError,
    UsageError,
    near_names,
)
from checkpoints.family import Family, at_prefix, resolve
from checkpoints.mapped import Pages
from checkpoints.mapping import SavedVariables, as_key, described
from checkpoints.names import OBJECT_GRAPH_KEY, Role
from checkpoints.placing import Place
from checkpoints.progress import SILENT, Progress, Task
from checkpoints.slices import SavedSlices
from checkpoints.slices_writer import Content, write_slices
from checkpoints.slicing import Slicing
from checkpoints.tensors import Array, Variable, as_array
from checkpoints.writable import refuse_name, refuse_words

if TYPE_CHECKING:
    from checkpoints.object_based import ObjectNames

Version = Literal["v1", "v2", "npz", "safetensors"]
_ARRAYS: dict[str, Literal["npz", "safetensors"]] = {".npz": "npz", ".safetensors": "safetensors"}


class _Source(Protocol):
    """What every form of checkpoints can do."""

    @property
    def variables(self) -> dict[str, Variable]: ...

    def read(self, name: str) -> Array: ...

    def tensor_bytes(self, name: str) -> memoryview: ...


class Checkpoint(SavedVariables):
    """A checkpoint that is open: a mapping from names to arrays, read when they are asked for.

    Arrays are read-only; they are views of the file where its bytes allow it, and stay valid
    after the checkpoint is closed. Strings come as object arrays of bytes.

    Attributes:
      family: the files.
      variables: name, dtype and shape of every variable, by name.
      label: the prefix, as text.
      metadata: what an npz or safetensors file says beside its variables; else nothing.
      unreadable: arrays of an npz that cannot be variables; asking for one raises its error.
      objects: of an object-based checkpoint, which key of the file each name stands for; None
        for others.
    """

    def __init__(
        self,
        family: Family,
        source: _Source,
        metadata: Mapping[str, str] | None = None,
        objects: ObjectNames | None = None,
        unreadable: Mapping[str, SlimtuneError] | None = None,
    ) -> None:
        """Made by `checkpoints.open`."""
        self.family = family
        self.objects = objects
        self.variables = source.variables
        self.label = str(family.prefix)
        self.metadata = metadata or {}
        self.unreadable = unreadable or {}
        self._source: _Source | None = source

    def __getitem__(self, name: str) -> Array:
        """The values of one variable.

        Raises:
          NotFoundError: there is no such variable (it is a KeyError too).
          CheckpointError: its bytes are missing or damaged.
        """
        return self._open_source(name).read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __eq__(self, other: object) -> bool:
        # A mapping's comparison would read all values and fail on the first array.
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def bytes_of(self, name: str) -> memoryview:
        """The values of a variable of numbers: C order, little-endian; uncopied where possible.

        Raises:
          NotFoundError: there is no such variable (it is a KeyError too).
          CheckpointError: its bytes are missing or damaged.
          UsageError: it holds strings.
        """
        source = self._open_source(name)
        if self.variables[name].dtype_name == "string":
            raise UsageError(f"Variable {name} holds strings, which are no row of numbers.")
        return source.tensor_bytes(name)

    def role(self, name: str) -> Role:
        """What a variable is for: as an object graph says it, else as its name does."""
        known = None if self.objects is None else self.objects.roles.get(name)
        return known or super().role(name)

    def close(self) -> None:
        """Lets go of the files. Arrays that were read stay valid."""
        self._source = None

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Checkpoint {self.family.prefix} ({len(self)} variables)>"

    def _open_source(self, name: str) -> _Source:
        if self._source is None:
            raise UsageError(f"The checkpoint {self.family.prefix} has been closed.")
        if name in self.unreadable:
            raise self.unreadable[name]
        if name not in self.variables:
            raise VariableNotFoundError(
                f"{self.family.prefix} has no variable {name!r}.",
                next_step=_near(name, list(self.variables)),
            )
        return self._source


class VariableNotFoundError(NotFoundError, KeyError):
    """A checkpoint has no variable of that name."""


def open(
    path: str | os.PathLike[str] | Family,
    *,
    verify_checksums: bool = True,
    plain_names: bool = True,
) -> Checkpoint:
    """Opens a checkpoint in any form; reads names, dtypes and shapes only.

    Args:
      path: the checkpoint in any spelling that checkpoints.family.resolve takes, or what that
        gave.
      verify_checksums: whether bytes are compared with their checksums when they are read.
      plain_names: whether the variables of an object-based checkpoint (tf.train.Checkpoint,
        Keras) go by the names they were made with, as in a checkpoint of tf.train.Saver; else
        by the keys of the file.

    Raises:
      NotFoundError: nothing of that name is there.
      UnsupportedError: the file is no checkpoint.
      CheckpointError: the index is broken.
    """
    family = path if isinstance(path, Family) else resolve(path)
    if family.kind == "npz":
        from checkpoints.npz import NpzFile

        arrays = NpzFile(family.prefix, verify_checksums)
        return Checkpoint(family, arrays, arrays.metadata, unreadable=arrays.unreadable)
    if family.kind == "safetensors":
        from checkpoints.safetensors_file import SafetensorsFile

        file = SafetensorsFile(family.prefix)
        return Checkpoint(family, file, file.metadata)
    if family.kind == "checkpoint-v1":
        return Checkpoint(family, SavedSlices(family.files, verify_checksums))
    bundle = Bundle(family.prefix, verify_checksums)
    if OBJECT_GRAPH_KEY in bundle.variables:
        from checkpoints.object_based import named_objects

        source, objects = named_objects(bundle, plain_names)
        return Checkpoint(family, source, objects=objects)
    return Checkpoint(family, bundle)


def write(
    path: str | os.PathLike[str],
    variables: Mapping[str, Array] | Iterable[tuple[str, Array]],
    *,
    version: Version | None = None,
    overwrite: bool = False,
    metadata: Mapping[str, str] | None = None,
    slicing: Slicing | None = None,
    progress: Progress = SILENT,
) -> Family:
    """Writes a checkpoint that TensorFlow reads, or a file of arrays.

    A kill in the middle leaves the old checkpoint, the new one or none under the name.

    Args:
      path: the prefix, as in "copy.ckpt", or the file; directories are made.
      variables: values by name, or pairs of name and value. A mapping is written in the order
        of the names, as tf.train.Saver does; pairs in their own order, each let go once written.
        Strings are arrays of bytes or text.
      version: "v2" (PREFIX.index and .data), "v1" (one file), "npz" or "safetensors"; left out,
        what the path ends in: .npz, .safetensors, else V2.
      overwrite: whether a checkpoint that is there already is replaced, its .meta too, which is
        said.
      metadata: text by key that goes into an npz or safetensors file; TensorFlow's checkpoints
        have no place for it.
      slicing: which variables are written in slices, as TensorFlow's partitioned variables are;
        V1 and V2 only.
      progress: is told of every variable.

    Raises:
      OutputExistsError: a checkpoint of that name is there and may not be replaced.
      UnsupportedError: TensorFlow, or the form, has no dtype for a value.
      UsageError: the form has no place for metadata or slices.
    """
    version = version or version_of(path)
    refuse_words(path, version, metadata, slicing)
    place = Place(path, version, overwrite=overwrite)
    with place.beside() as prefix:
        written = write_files(
            prefix,
            variables,
            version,
            metadata=metadata,
            slicing=slicing,
            progress=progress,
        )
        return place.take(written, progress)


def write_files(
    prefix: Path,
    variables: Mapping[str, Array] | Iterable[tuple[str, Array]],
    version: Version,
    *,
    metadata: Mapping[str, str] | None = None,
    slicing: Slicing | None = None,
    progress: Progress = SILENT,
) -> Family:
    """Writes the files themselves, where there are none yet; arguments and errors as of `write`,
    but that the caller has seen to it that the form has a place for what is said (refuse_words).
    """
    if version in ("npz", "safetensors"):
        return _write_arrays(prefix, variables, version, metadata or {}, progress)
    num_variables = len(variables) if isinstance(variables, Mapping) else None
    with progress.task(f"Writing {prefix.name}", num_variables, "variables") as task:
        if version == "v2":
            write_bundle(prefix, _named(variables, task), slicing)
        else:
            # The file begins with what all variables are, so pairs have to be collected.
            values = variables if isinstance(variables, Mapping) else dict(_named(variables))
            contents = [
                Content(name, dtypes.of_name(variable.dtype_name), variable.shape)
                for name, variable in _all_described(values).items()
            ]
            write_slices(prefix, contents, _reader(values, task), slicing)
    written = at_prefix(prefix)
    if written is None:
        raise CheckpointError(f"The checkpoint {prefix} was removed while it was written.")
    return written


def version_of(path: str | os.PathLike[str]) -> Version:
    """The form that the end of a path asks for: .npz, .safetensors, else V2."""
    return _ARRAYS.get(Path(path).suffix, "v2")


def _write_arrays(
    path: Path,
    variables: Mapping[str, Array] | Iterable[tuple[str, Array]],
    version: Literal["npz", "safetensors"],
    metadata: Mapping[str, str],
    progress: Progress,
) -> Family:
    values = variables if isinstance(variables, Mapping) else dict(_named(variables))
    known = list(_all_described(values).values())
    with progress.task(f"Writing {path.name}", len(known), "variables") as task:
        if version == "npz":
            from checkpoints.npz_writer import write_npz

            write_npz(path, known, _reader(values, task), metadata)
        else:
            from checkpoints.safetensors_file import write_safetensors

            write_safetensors(path, known, _reader(values, task), metadata)
    return Family(path, version, (path,), None)


def _all_described(variables: Mapping[str, Array]) -> dict[str, Variable]:
    for name in variables:
        refuse_name(name)
    return described(variables)


def _reader(values: Mapping[str, Array], task: Task) -> Callable[[str], Array]:
    """Reads one variable after the other and says so, once for each."""
    done: set[str] = set()
    pages = Pages()

    def read(name: str) -> Array:
        if name not in done:
            done.add(name)
            task.advance()
        array = as_array(values[name], name)
        pages.passed(array.nbytes)
        return array

    return read


def _named(
    variables: Mapping[str, Array] | Iterable[tuple[str, Array]], task: Task | None = None
) -> Iterator[tuple[str, Array]]:
    """Names, each only once, and values, one by one; a mapping in the order of its names."""
    seen: set[str] = set()
    pages = Pages()
    for name, value in _sorted(variables) if isinstance(variables, Mapping) else variables:
        refuse_name(name, seen)
        seen.add(name)
        array = as_array(value, name)
        yield name, array
        pages.passed(array.nbytes)
        if task is not None:
            task.advance()


def _sorted(variables: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for name in variables:
        refuse_name(name)
    for name in sorted(variables, key=as_key):
        yield name, variables[name]


def _near(name: object, names: list[str]) -> str | None:
    near = near_names(name, names) if isinstance(name, str) else []
    return f"Did you mean {', '.join(near)}?" if near else None
