import hashlib
import json

import pytest

from checkpoints.published import PUBLISHED_AT
from scripts.main import main

PATH = "/inception_v3_2016_08_28.tar.gz"


@pytest.fixture
def run(capsys, http_server, monkeypatch, tmp_path):
    """Types a command; gives (exit code, stdout, stderr)."""
    http_server.add_archive(PATH, {"./inception_v3.ckpt": b"the checkpoint"})
    monkeypatch.setenv("SLIMTUNE_MIRROR", http_server.url(""))
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))

    def type_(*words):
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return type_


def test_people_are_told_where_it_is_and_what_comes_next(run, tmp_path, http_server):
    code, out, err = run("download", "inception_v3")
    archive = http_server.files[PATH]
    path = tmp_path / "cache/checkpoints/inception_v3.ckpt"
    assert code == 0
    assert out == (
        f"inception_v3: downloaded to {path}\n"
        "  for net inception_v3, 1001 classes (label offset 1), 299 pixels, "
        "inception preprocessing\n"
        f"  SHA-256 {hashlib.sha256(archive).hexdigest()}, {len(archive)} bytes\n"
        "Next: slimtune plan --net inception_v3 --checkpoint inception_v3 --classes 5\n"
    )
    assert err == (
        f"inception_v3: fetching {http_server.url(PATH)} into {path.parent}.\n"
        "inception_v3: unpacking 0.0 MB.\n"
    )
    assert path.read_bytes() == b"the checkpoint"


def test_a_directory_of_ones_own_with_a_blank(run, tmp_path):
    code, out, _ = run("download", "inception_v3", "--to", tmp_path / "my models")
    path = tmp_path / "my models/inception_v3.ckpt"
    assert code == 0
    assert out.endswith(f"--checkpoint '{path}' --classes 5\n")
    assert path.read_bytes() == b"the checkpoint"


def test_the_second_time_it_is_there(run, http_server):
    run("download", "inception_v3")
    code, out, err = run("download", "inception_v3")
    assert code == 0
    assert out.startswith("inception_v3: already at ")
    assert "inception_v3 is already there: " in err
    assert len(http_server.requests) == 1


def test_programs_get_one_object(run, tmp_path, http_server):
    archive = http_server.files[PATH]
    half = len(archive) // 2
    http_server.faults[PATH] = [http_server.Fault(cut_at=half)]
    code, out, err = run("download", "inception_v3", "--to", tmp_path / "to", "--json")
    assert code == 0
    assert json.loads(out) == {
        "name": "inception_v3",
        "net": "inception_v3",
        "status": "downloaded",
        "path": str(tmp_path / "to/inception_v3.ckpt"),
        "files": [str(tmp_path / "to/inception_v3.ckpt")],
        "archive": str(tmp_path / "to" / PATH[1:]),
        "url": PUBLISHED_AT + PATH,
        "sha256": hashlib.sha256(archive).hexdigest(),
        "bytes": len(archive),
        "resumed_bytes": half,
    }
    assert "trying again in 1 s" in err


def test_overwrite_and_url(run, http_server, tmp_path):
    run("download", "inception_v3", "--to", tmp_path)
    http_server.add_archive("/mine.tgz", {"inception_v3.ckpt": b"mine"})
    words = ("download", "inception_v3", "--to", tmp_path, "--url", http_server.url("/mine.tgz"))
    code, _, err = run(*words)
    assert code == 1
    assert "Add --overwrite" in err
    assert run(*words, "--overwrite")[0] == 0
    assert (tmp_path / "inception_v3.ckpt").read_bytes() == b"mine"


def test_a_failure_is_an_object_too(run, monkeypatch):
    monkeypatch.setenv("SLIMTUNE_MIRROR", "http://127.0.0.1:9")
    code, out, _ = run("download", "inception_v3", "--json")
    error = json.loads(out)["error"]
    assert code == 1
    assert error["type"] == "DownloadError"
    assert error["next"].startswith(f"Fetch {PUBLISHED_AT}{PATH} by other means and put it at ")


def test_an_unknown_name_gets_near_ones(run):
    code, _, err = run("download", "inception_v33")
    assert code == 1
    assert "Names near it: inception_v3" in err


def test_help_has_an_example(run):
    code, out, _ = run("download", "--help")
    assert code == 0
    assert "slimtune download inception_v3\n" in out
