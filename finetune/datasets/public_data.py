"""Public sets of pictures: fetched once into the cache, then laid out where they are wanted."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from checkpoints.archive import unpack_members
from checkpoints.cache import cache_directory, locked
from checkpoints.checksum import sha256_of
from checkpoints.errors import BrokenFileError, DataError, DownloadError, NotFoundError
from checkpoints.fetch import (
    PATIENT,
    RetryPolicy,
    checked_url,
    discard,
    fetch,
    megabytes,
    shown_url,
)
from checkpoints.files import (
    atomic_directory,
    make_parent,
    refuse_existing,
    refuse_foreign_files,
    write_json,
    writing,
)
from checkpoints.progress import SILENT, Progress
from finetune.datasets.sources import Source, find_source
from finetune.datasets.sources.idx import read_idx

_MOST_PICTURES = 1_000_000


@dataclass(frozen=True)
class PublicData:
    """A set of pictures that anyone may fetch.

    Attributes:
      name: what `data download` takes.
      files: their names, below every address.
      addresses: where they are, the first that answers is taken.
      own: regular expression of the paths that stand in a directory of it.
      archive: whether the file is an archive of what is wanted below one folder.
    """

    name: str
    files: tuple[str, ...]
    addresses: tuple[str, ...]
    own: str
    archive: bool


PUBLIC_DATA = {
    "flowers": PublicData(
        name="flowers",
        files=("flower_photos.tgz",),
        addresses=(
            "https://storage.googleapis.com/download.tensorflow.org/example_images",
            "http://download.tensorflow.org/example_images",
        ),
        own=r"[^/]+/[^/]+\.jpe?g|LICENSE\.txt",
        archive=True,
    ),
    "mnist": PublicData(
        name="mnist",
        files=(
            "train-images-idx3-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
        addresses=(
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
        ),
        own=r"(train|t10k)-(images-idx3|labels-idx1)-ubyte\.gz",
        archive=False,
    ),
    "cifar10": PublicData(
        name="cifar10",
        files=("cifar-10-binary.tar.gz",),
        addresses=("https://www.cs.toronto.edu/~kriz",),
        own=r"(data_batch_[1-5]|test_batch)\.bin|batches\.meta\.txt",
        archive=True,
    ),
}
"""What can be fetched: the flowers of TensorFlow's tutorials, MNIST, and CIFAR-10."""


@dataclass(frozen=True)
class FetchedFile:
    """One file of a set, in the cache.

    Attributes:
      path: where it is.
      url: where it came from.
      sha256: in hexadecimal.
      size: in bytes.
      resumed: bytes of it that a cut connection had left and that were not fetched again.
      fetched: False where it was there already.
    """

    path: Path
    url: str
    sha256: str
    size: int
    resumed: int = 0
    fetched: bool = False


@dataclass(frozen=True)
class DownloadedData:
    """A set of pictures on this machine.

    Attributes:
      name: of the set.
      path: the directory.
      files: what it was made of.
      classes: class names in order.
      num_pictures: of all splits.
    """

    name: str
    path: Path
    files: tuple[FetchedFile, ...]
    classes: tuple[str, ...]
    num_pictures: int


def download_data(
    name: str,
    out: str | Path,
    *,
    url: str | None = None,
    at_hand: Path | None = None,
    overwrite: bool = False,
    progress: Progress = SILENT,
    policy: RetryPolicy = PATIENT,
) -> DownloadedData:
    """Gets a public set of pictures: class folders for flowers, four IDX files for mnist, CIFAR-10's
    binary batches for cifar10.

    A file that is in the cache, fetched before or put there by hand, is not fetched again
    unless `url` names another place. The SHA-256 of what came from an address is noted the
    first time and compared after.

    Args:
      name: a key of PUBLIC_DATA.
      out: the directory to make.
      url: https or http address instead of the public ones: of the archive of flowers; of the
        folder that holds the four files of mnist.
      at_hand: a directory that may hold the files: these are used as they are, and stay there.
      overwrite: replace `out`, and fetch again.
      progress: gets the bytes, and a line for each thing worth knowing.
      policy: how patient to be with the network.

    Raises:
      NotFoundError: there is no such set.
      OutputExistsError: `out` is there, or holds other files than these.
      DownloadError: it cannot be fetched, or is not what was asked for; says how to go on
        without a network.
      OutputError: `out` or the cache cannot be written.
    """
    record = PUBLIC_DATA.get(name)
    if record is None:
        raise NotFoundError(
            f"There is no public set {name!r}.", expected=f"one of {', '.join(PUBLIC_DATA)}"
        )
    out = Path(out)
    refuse_existing(out, overwrite, is_directory=True)
    refuse_foreign_files(out, record.own, f"the files of {name}")
    cache = cache_directory() / "data" / name
    make_parent(cache / record.files[0])
    with writing(cache), locked(cache / ".lock", progress):
        files = [
            _at_hand(record, file, at_hand, progress)
            or _get(record, file, _addresses(record, file, url), cache, overwrite, progress, policy)
            for file in record.files
        ]
        if record.archive:
            progress.say(f"{name}: unpacking {megabytes(files[0].size)}.")
        else:
            for file in files:
                with _usable(record, [file], cache):
                    read_idx(file.path)
        with _usable(record, files, cache), atomic_directory(out, overwrite) as folder:
            source = _lay_out(record, files, folder)
        files = [_keep(file, cache) if file.fetched else file for file in files]
    return DownloadedData(name, out, tuple(files), source.classes, len(source.items))


@contextmanager
def _usable(record: PublicData, files: Sequence[FetchedFile], cache: Path) -> Iterator[None]:
    """Tells what is wrong with these files, and where they came from; fetched ones go."""
    try:
        yield
    except (BrokenFileError, DataError) as error:
        is_page = not record.archive and any(_is_page(file.path) for file in files)
        for file in files:
            if file.fetched:
                discard(file.path)
        by_hand = _by_hand(record, cache)
        if files[0].fetched:
            came, next_step = f"came from {_common(file.url for file in files)}", by_hand
        else:
            came = f"lies in {cache}" if len(files) > 1 else f"is in {files[0].path}"
            next_step = f"Fetch it again with --overwrite. {by_hand}"
        what = error.message
        if record.archive and isinstance(error, DataError):
            what = f"It holds no pictures of {record.name} below one folder."
        raise DownloadError(
            f"{record.name}: what {came} cannot be used: {what}",
            expected=error.expected,
            received="a web page (HTML), as of a login" if is_page else error.received,
            next_step=next_step,
        ) from error


def _common(addresses: Iterable[str]) -> str:
    """One address, or the folder of several."""
    several = list(addresses)
    return several[0] if len(several) == 1 else several[0].rpartition("/")[0]


def _is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip()[:5].lower() in (b"<html", b"<!doc", b"<?xml", b"<head")


def _keep(file: FetchedFile, cache: Path) -> FetchedFile:
    """Puts a file that was fetched anew, and found good, into the place of the one before it."""
    path = cache / file.path.name
    if file.path != path:
        file.path.replace(path)
        _write_note(file, cache)
    return replace(file, path=path)


def _write_note(file: FetchedFile, cache: Path) -> None:
    note = {"url": file.url, "sha256": file.sha256, "size": file.size}
    write_json(cache / f"{file.path.name}.json", note)


def _lay_out(record: PublicData, files: Sequence[FetchedFile], folder: Path) -> Source:
    """Fills the directory and looks whether it is what it should be."""
    if record.archive:

        def place(name: str) -> str | None:
            inside = name.partition("/")[2]
            return inside if re.fullmatch(record.own, inside, re.IGNORECASE) else None

        unpack_members(files[0].path, folder, place, _MOST_PICTURES)
    else:
        for file in files:
            shutil.copyfile(file.path, folder / file.path.name)
    return find_source(folder)


def _at_hand(
    record: PublicData, name: str, folder: Path | None, progress: Progress
) -> FetchedFile | None:
    """A file that lies in a folder of the user's; None where it does not."""
    if folder is None or not (folder / name).is_file():
        return None
    path = folder / name
    progress.say(f"{record.name}: {path} is there; it is not fetched.")
    return FetchedFile(path, "unknown", sha256_of(path), path.stat().st_size)


def _addresses(record: PublicData, file: str, url: str | None) -> list[str]:
    if url is None:
        return [f"{address}/{file}" for address in record.addresses]
    whole = url if record.archive and not url.endswith("/") else f"{url.rstrip('/')}/{file}"
    return [checked_url(whole)]


def _by_hand(record: PublicData, cache: Path) -> str:
    files = ", ".join(record.files)
    return (
        f"Fetch {files} by other means and put it into {cache}: it is used from there. "
        "Or name another address with --url."
    )


def _get(
    record: PublicData,
    name: str,
    addresses: Sequence[str],
    cache: Path,
    again: bool,
    progress: Progress,
    policy: RetryPolicy,
) -> FetchedFile:
    """One file: from the cache, else from the first address that gives it."""
    path, note_path = cache / name, cache / f"{name}.json"
    note = _read_note(note_path)
    if path.is_file() and not (again or _is_another(note, addresses, record)):
        source = note["url"] if note else "unknown"
        file = FetchedFile(path, source, sha256_of(path), path.stat().st_size)
        if note is not None and note["sha256"] != file.sha256:
            raise DownloadError(
                f"{record.name}: {path} is not the file that was fetched: it has changed since.",
                expected=f"SHA-256 {note['sha256']}, {note['size']} bytes (noted in {note_path})",
                received=f"SHA-256 {file.sha256}, {file.size} bytes",
                next_step="Fetch it again with --overwrite; if you put it there yourself and it is "
                f"right, remove {note_path}.",
            )
        progress.say(f"{record.name}: {path} is there; it is not fetched again.")
        return file
    # What is there stays until the new file is known to be good.
    target = cache / "new" / name if path.is_file() else path
    target.parent.mkdir(exist_ok=True)
    for place, address in enumerate(addresses):
        progress.say(f"{record.name}: fetching {shown_url(address)}.")
        partial = cache / f"{name}.partial"
        try:
            fetched = fetch(
                address,
                partial,
                description=f"{record.name} ({name})",
                next_step=_by_hand(record, cache),
                progress=progress,
                policy=policy,
            )
        except DownloadError as error:
            if place == len(addresses) - 1:
                raise
            progress.say(f"{record.name}: {error.message}")
            continue
        file = FetchedFile(
            target, shown_url(address), sha256_of(partial), fetched.size, fetched.resumed, True
        )
        _compare(record, file, note, note_path, partial)
        partial.replace(target)
        discard(partial)
        if target == path:
            _write_note(file, cache)
        progress.say(f"{record.name}: {name}, {megabytes(file.size)}.")
        return file
    raise DownloadError(f"{record.name} has no address.")


def _is_another(note: dict[str, str] | None, addresses: Sequence[str], record: PublicData) -> bool:
    """Whether an address was asked for that the file in the cache is not known to come from."""
    asked = {shown_url(address) for address in addresses}
    is_public = all(address.startswith(record.addresses) for address in addresses)
    return not is_public and (note is None or note["url"] not in asked)


def _compare(
    record: PublicData,
    file: FetchedFile,
    note: dict[str, str] | None,
    note_path: Path,
    partial: Path,
) -> None:
    """Refuses another file than the one that came first from the same address."""
    if note is None or note["url"] != file.url or note["sha256"] == file.sha256:
        return
    discard(partial)
    raise DownloadError(
        f"{record.name}: this is not the file that came from {file.url} before.",
        expected=f"SHA-256 {note['sha256']}, {note['size']} bytes (noted in {note_path})",
        received=f"SHA-256 {file.sha256}, {file.size} bytes",
        next_step=f"If the new file is right, remove {note_path} and try again.",
    )


def _read_note(path: Path) -> dict[str, str] | None:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return {key: str(note[key]) for key in ("url", "sha256", "size")}
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BrokenFileError(
            f"{path} is not a note of a download ({error}).", next_step="Remove it and try again."
        ) from error
