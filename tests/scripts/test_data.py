"""slimtune data, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scripts.main import main


@pytest.fixture
def run(capsys):
    """Runs a command line; gives exit code, stdout and stderr."""

    def run_verb(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return stopped.value.code or 0, written.out, written.err

    return run_verb


@pytest.fixture
def pets(tmp_path):
    chance = np.random.default_rng(0)
    for name in ("cat", "[dog]"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(6):
            pixels = chance.integers(0, 256, (8, 9, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.jpg")
    return tmp_path / "pets"


def test_build_tells_people_what_it_did(run, pets, tmp_path):
    (pets / "cat/cut.jpg").write_bytes((pets / "cat/0.jpg").read_bytes()[:200])
    (pets / "none").mkdir()
    code, out, err = run("data", "build", pets, tmp_path / "my shards", "--val", "0")
    assert code == 0
    lines = out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["label", "class", "train"],
        ["0", "[dog]", "6"],
        ["1", "cat", "6"],
        ["in", "all", "12"],
    ]
    assert f"12 pictures in 2 classes -> {tmp_path / 'my shards'}" in out
    assert f"Skipped (1):\n  {pets / 'cat/cut.jpg'}: is cut short" in out
    assert "Folders without a usable picture, no class of the dataset (1):\n  none" in out
    assert f"Next: slimtune data show '{tmp_path / 'my shards'}' --out sheet.png" in out
    assert f"{pets}: 13 pictures in 3 classes (depth 1)." in err


def test_build_tells_programs_what_it_did(run, pets, tmp_path):
    code, out, _ = run("data", "build", pets, tmp_path / "out", "--val", "0.5", "--json")
    value = json.loads(out)
    assert code == 0
    assert list(value) == [
        "path", "name", "classes", "counts", "pictures", "changes", "skipped", "ignored",
        "empty_classes", "without_validation", "without_training", "moved_to_training",
        "duplicates", "repeated",
        "hash", "seconds",
    ]  # fmt: skip
    assert value["classes"] == ["[dog]", "cat"]
    assert sum(sum(counts.values()) for counts in value["counts"].values()) == 12
    stored = json.loads((tmp_path / "out/dataset.json").read_text())
    assert {split: part["counts"] for split, part in stored["splits"].items()} == {
        split: counts for split, counts in value["counts"].items() if any(counts.values())
    }


def test_a_broken_picture_under_fail(run, pets, tmp_path):
    (pets / "cat/zero.jpg").write_bytes(b"")
    code, out, err = run("data", "build", pets, tmp_path / "out", "--on-error", "fail", "--json")
    assert code == 1
    error = json.loads(out)["error"]
    assert error["type"] == "DataError"
    assert error["message"] == f"{pets / 'cat/zero.jpg'} is empty (0 bytes)."
    assert "Next: Replace or remove the file" in err
    assert not (tmp_path / "out").exists()


def test_wrong_usage(run, pets, tmp_path):
    for options in (["--val", "1"], ["--shards", "0"], ["--on-error", "ignore"]):
        code, _, err = run("data", "build", pets, tmp_path / "out", *options)
        assert code == 2
        assert "Traceback" not in err
    code, _, _ = run("data", "show", pets, "--out", tmp_path / "a.png", "--augment", "--boxes")
    assert code == 2


def test_check_exits_1_where_something_is_found(run, pets):
    code, out, _ = run("data", "check", pets)
    assert (code, out) == (0, f"{pets}: 12 pictures in 2 classes looked at, no problems.\n")
    (pets / "cat/zero.jpg").write_bytes(b"")
    code, out, _ = run("data", "check", pets, "--json")
    assert code == 1
    value = json.loads(out)
    assert value["problems"] == [
        {"kind": "empty", "path": str(pets / "cat/zero.jpg"), "detail": "is empty (0 bytes)"}
    ]
    code, out, _ = run("data", "check", pets)
    assert code == 1
    assert "1 problem:" in out
    assert "is empty (0 bytes)" in out


def test_check_of_one_picture_names_no_classes(run, pets):
    code, out, _ = run("data", "check", pets / "cat/0.jpg")
    assert (code, out) == (0, f"{pets / 'cat/0.jpg'}: 1 picture looked at, no problems.\n")
    (pets / "cat/zero.jpg").write_bytes(b"")
    code, out, _ = run("data", "check", pets / "cat/zero.jpg")
    assert (code, out.splitlines()[0]) == (
        1,
        f"{pets / 'cat/zero.jpg'}: 1 picture looked at, 1 problem:",
    )


def test_check_of_shards(run, pets, tmp_path):
    run("data", "build", pets, tmp_path / "out", "--val", "0", "--shards", "1")
    path = tmp_path / "out/pets_train_00000-of-00001.tfrecord"
    path.write_bytes(path.read_bytes()[:-7])
    code, out, _ = run("data", "check", tmp_path / "out", "--json")
    assert code == 1
    problems = json.loads(out)["problems"]
    assert [problem["kind"] for problem in problems] == ["damaged-record", "count"]
    assert problems[0]["path"] == str(path)
    assert "record 11 (offset " in problems[0]["detail"]


def test_show(run, pets, tmp_path):
    code, out, _ = run("data", "show", pets, "--out", tmp_path / "sheet.png", "--json")
    assert code == 0
    assert json.loads(out) == {
        "path": str(tmp_path / "sheet.png"),
        "classes": ["[dog]", "cat"],
        "left_out": 0,
        "pictures": 12,
        "missing_characters": "",
    }
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.format == "PNG"
    code, _, err = run("data", "show", pets, "--out", tmp_path / "sheet.png")
    assert code == 1
    assert "--overwrite" in err


def test_names_that_are_no_utf_8_are_shown_escaped(pets):
    Path(os.fsdecode(os.fsencode(pets) + b"/cat/\xff.jpg")).touch()
    for options in (["--json"], []):
        done = subprocess.run(
            [sys.executable, "-m", "scripts.main", "data", "check", str(pets), *options],
            check=False,
            capture_output=True,
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONIOENCODING": "utf-8:strict"},
        )
        assert done.returncode == 1, done.stderr
        out = done.stdout.decode("utf-8")
        assert "is empty (0 bytes)" in out
        if options:
            found = json.loads(out)["problems"][0]["path"]
            assert os.fsencode(found) == os.fsencode(pets) + b"/cat/\xff.jpg"


def test_help_loads_neither_tensorflow_nor_numpy():
    program = (
        "import sys\n"
        "from scripts.command_line import cli\n"
        "for words in (['data'], ['data', 'build'], ['data', 'check'], ['data', 'show'],\n"
        "              ['data', 'download']):\n"
        "    cli.main([*words, '--help'], standalone_mode=False)\n"
        "print('loaded', sorted({'tensorflow', 'numpy', 'PIL', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.endswith("loaded []\n")
    assert "slimtune data build flowers shards --val 0.1" in done.stdout


def test_build_from_a_manifest(run, pets, tmp_path):
    manifest = tmp_path / "m.csv"
    manifest.write_text("path,label\ncat/0.jpg,a\n[dog]/0.jpg,b\n")
    code, out, err = run("data", "build", pets, tmp_path / "out", "--manifest", manifest, "--json")
    assert code == 0
    assert json.loads(out)["classes"] == ["a", "b"]
    assert f"{pets}: 2 pictures in 2 classes (m.csv)." in err
    manifest.write_text("path,label\ncat/0.jpg,\n[dog]/0.jpg,\n")
    code, _, err = run("data", "build", pets, tmp_path / "no", "--manifest", manifest)
    assert code == 1
    assert f"{manifest} cannot be used:\n  line 2: no label\n  line 3: no label" in err


def test_download(run, http_server, tmp_path, monkeypatch, pets):
    monkeypatch.setenv("SLIMTUNE_CACHE", str(tmp_path / "cache"))
    pictures = {f"flower_photos/{name}/0.jpg": (pets / "cat/0.jpg").read_bytes() for name in "ab"}
    http_server.add_archive("/f.tgz", pictures)
    out = tmp_path / "my flowers"
    code, printed, err = run("data", "download", "flowers", out, "--url", http_server.url("/f.tgz"))
    assert code == 0, err
    assert printed.splitlines()[0] == f"2 pictures in 2 classes are in {out}."
    assert printed.splitlines()[-1] == f"Next: slimtune data build '{out}' shards"
    code, printed, _ = run("data", "download", "flowers", tmp_path / "again", "--json")
    assert code == 0
    value = json.loads(printed)
    assert (value["classes"], value["pictures"]) == (["a", "b"], 2)
    assert [file["fetched"] for file in value["files"]] == [False]
    code, printed, _ = run("data", "download", "flowers", out, "--json")
    assert (code, json.loads(printed)["error"]["type"]) == (1, "OutputExistsError")


def test_names_with_control_characters_do_not_steer_a_terminal(run, pets, tmp_path):
    (pets / "cat").rename(pets / "c\x1b[31mat")
    (pets / "c\x1b[31mat/no\nope.jpg").write_bytes(b"no picture")
    for arguments in (("check", pets), ("build", pets, tmp_path / "o\x1bt", "--val", "0")):
        _, out, err = run("data", *arguments)
        assert "\x1b" not in out + err
        # A table breaks a long path into lines.
        assert "c\\x1b[31mat" in "".join(out.split())
        assert "no\\nope.jpg" in "".join((out + err).split())
    assert f"train $'{tmp_path}/o\\x1bt' --run" in out


def test_class_names_are_utf8_in_any_locale(tmp_path):
    for name in ("花", "b"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        pixels = np.full((8, 9, 3), len(name.encode()), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pets" / name / "0.png")
    done = subprocess.run(
        [sys.executable, "-m", "scripts", "data", "build", "pets", "out", "--json"],
        check=True,
        cwd=tmp_path,
        env=os.environ
        | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
    )
    assert json.loads(done.stdout)["pictures"] == 2
    assert (tmp_path / "out/labels.txt").read_text(encoding="utf-8") == "b\n花\n"


def test_runners_and_their_options_that_do_not_go_together(run, pets, tmp_path):
    build = ("data", "build", pets, tmp_path / "out")
    assert run(*build, "--runner", "local")[0] == 0
    for words, told in (
        (("--runner", "spark"), "'spark' is not one of 'local', 'beam'"),
        (("--beam-options", "--runner=FlinkRunner"), "--beam-options are for Apache Beam."),
    ):
        code, _, err = run("data", "build", pets, tmp_path / "no", *words)
        assert (code, told in err) == (2, True), err
    code, _, err = run("data", "build", "gs://bucket/pets", tmp_path / "no")
    assert code == 2
    assert "gs://bucket/pets lies in cloud storage" in err
    assert "Next: Add --runner beam" in err


def test_without_the_extra_beam_it_is_named(run, pets, tmp_path, monkeypatch):
    monkeypatch.setattr("exporters.runtimes.extras.is_installed", lambda name: False)
    for verb in (("data", "build", pets), ("features", tmp_path / "model.pb", pets)):
        code, out, err = run(*verb, tmp_path / "out", "--runner", "beam")
        assert (code, out) == (1, "")
        assert "This needs apache_beam, which slimtune does without otherwise." in err
        assert "Next: pip install 'slimtune[beam]'" in err
    assert not (tmp_path / "out").exists()


def test_what_may_not_be_read_is_refused_and_no_wrong_usage(run, pets, monkeypatch):
    def refusing(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)
    monkeypatch.setattr(os, "scandir", refusing)
    code, _, err = run("data", "build", pets, pets.parent / "out")
    assert code == 1
    assert f"Error: {pets}: Permission denied" in err
