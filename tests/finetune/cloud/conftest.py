"""Cloud storage that is a folder: fake:// for Apache Beam, ram:// for TensorFlow."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fake_filesystem():
    """Registers fake:// with Beam: objects without folders, as gs:// and s3:// have them."""
    pytest.importorskip("apache_beam")
    from finetune.beam import load_beam

    load_beam()
    from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

    class FakeFileSystem(FileSystem):
        root = Path()

        @classmethod
        def scheme(cls):
            return "fake"

        def _file(self, url):
            return self.root / url.removeprefix("fake://")

        def has_dirs(self):
            return False

        def join(self, basepath, *paths):
            return "/".join([basepath, *paths])

        def split(self, path):
            return tuple(path.rsplit("/", 1))

        def mkdirs(self, path):
            pass

        def _list(self, prefix):
            for path in self.root.rglob("*"):
                url = f"fake://{path.relative_to(self.root)}"
                if path.is_file() and url.startswith(prefix):
                    yield self.metadata(url)

        def create(self, path, mime_type="", compression_type="auto"):
            assert compression_type == "uncompressed"
            self._file(path).parent.mkdir(parents=True, exist_ok=True)
            return self._file(path).open("wb")

        def open(self, path, mime_type="", compression_type="auto"):
            assert compression_type == "uncompressed"
            if not self._file(path).is_file():
                raise BeamIOError("no such object", {path: "404"})
            return self._file(path).open("rb")

        def copy(self, sources, destinations):
            for source, destination in zip(sources, destinations, strict=True):
                shutil.copyfile(self._file(source), self._file(destination))

        def rename(self, sources, destinations):
            for source, destination in zip(sources, destinations, strict=True):
                self._file(destination).parent.mkdir(parents=True, exist_ok=True)
                self._file(source).replace(self._file(destination))

        def exists(self, path):
            return self._file(path).is_file()

        def size(self, path):
            return self._file(path).stat().st_size

        def last_updated(self, path):
            return self._file(path).stat().st_mtime

        def checksum(self, path):
            raise NotImplementedError

        def metadata(self, path):
            return FileMetadata(path, self.size(path), self.last_updated(path))

        def delete(self, paths):
            for path in paths:
                self._file(path).unlink()

    return FakeFileSystem


@pytest.fixture
def bucket(fake_filesystem, tmp_path, monkeypatch):
    """The folder that is fake://."""
    folder = tmp_path / "storage"
    folder.mkdir()
    monkeypatch.setattr(fake_filesystem, "root", folder)
    return folder


@pytest.fixture
def names():
    """Paths of the files below a folder."""
    return lambda folder: sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
