"""Folders of pictures to shards: what goes where, what is reported, what is left untouched."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from checkpoints.errors import DataError, NotFoundError, OutputExistsError, UsageError
from finetune.datasets.build import build
from finetune.datasets.check import check
from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import parse_example, read_records
from finetune.datasets.sheet import draw_sheet
from finetune.datasets.sources.folders import read_source
from finetune.datasets.sources.names import natural_order


def jpeg(number, size=(12, 9)):
    """A picture that no other number has."""
    chance = np.random.default_rng(number)
    image = Image.fromarray(chance.integers(0, 256, (size[1], size[0], 3), np.uint8))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG")
    return buffer.getvalue()


def run_python(*arguments, program=None, cwd=None, **variables):
    """Runs Python in a process of its own, which finds the packages wherever it starts."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])} | variables
    return subprocess.run(
        [sys.executable, *arguments],
        check=False,
        input=program,
        cwd=cwd,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )


def write_folders(root, counts, start=0):
    """Class folders with so many pictures each, all different."""
    number = start
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        for _ in range(count):
            (folder / f"{number}.jpg").write_bytes(jpeg(number))
            number += 1
    return root


def examples(out, split=None):
    """Every record of a dataset: file name -> its features, with the split as `split`."""
    dataset = read_dataset(out)
    found = {}
    for name, part in dataset.splits.items():
        if split in (None, name):
            for shard in part.shards:
                for record in read_records(shard.path, shard.count):
                    features = {key: values[0] for key, values in parse_example(record).items()}
                    found[features["image/filename"].decode()] = features | {"split": name}
    return found


def test_records_hold_the_pictures_and_what_they_are(tmp_path):
    root = write_folders(tmp_path / "my pets", {"cat": 3, "dog": 4})
    result = build(root, tmp_path / "out", val=0)
    found = examples(tmp_path / "out")
    assert sorted(found) == [f"{name}/{n}.jpg" for name, n in
                             [*(("cat", n) for n in range(3)), *(("dog", n) for n in range(3, 7))]]  # fmt: skip
    for name, features in found.items():
        assert features == {
            "image/encoded": (root / name).read_bytes(),
            "image/format": b"jpeg",
            "image/height": 9,
            "image/width": 12,
            "image/class/label": 0 if name.startswith("cat") else 1,
            "image/class/text": name[:3].encode(),
            "image/filename": name.encode(),
            "split": "train",
        }
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        "dataset.json",
        "labels.txt",
        *(f"my_pets_train_{index:05d}-of-00005.tfrecord" for index in range(5)),
    ]
    assert (result.name, result.num_pictures, result.changes) == ("my_pets", 7, {})
    assert result.counts == {"train": (3, 4), "val": (0, 0), "test": (0, 0)}


def test_dataset_json_states_shards_and_counts(tmp_path):
    build(write_folders(tmp_path / "pets", {"a": 30, "b": 12}), tmp_path / "out", shards=4, val=0.2)
    value = json.loads((tmp_path / "out/dataset.json").read_text())
    dataset = read_dataset(tmp_path / "out")
    for name, split in value["splits"].items():
        assert len(split["shards"]) == 4
        sizes = [shard["count"] for shard in split["shards"]]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == split["count"] == sum(split["counts"].values())
        for shard, stated in zip(dataset.splits[name].shards, sizes, strict=True):
            assert len(list(read_records(shard.path))) == stated
    assert value["classes"] == ["a", "b"]
    assert value["hash"].startswith("sha256:")


def test_classes_are_mixed_in_every_shard(tmp_path):
    write_folders(tmp_path / "pets", {"a": 40, "b": 40})
    build(tmp_path / "pets", tmp_path / "out", shards=2, val=0)
    for shard in read_dataset(tmp_path / "out").split("train").shards:
        labels = [parse_example(r)["image/class/label"][0] for r in read_records(shard.path)]
        assert 10 < sum(labels) < 30


def test_classes_come_in_natural_order(tmp_path):
    names = ["10", "2", "1", "class 9b", "class 10", "class 9"]
    write_folders(tmp_path / "pets", dict.fromkeys(names, 1))
    build(tmp_path / "pets", tmp_path / "out")
    expected = ["1", "2", "10", "class 9", "class 9b", "class 10"]
    assert list(read_dataset(tmp_path / "out").classes) == expected
    assert natural_order(["b2", "B10", "a", "b10"]) == ["B10", "a", "b2", "b10"]


def test_the_same_pictures_give_the_same_bytes_whatever_the_processes(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 50, "b": 45})
    Image.new("RGBA", (5, 5), (1, 2, 3, 4)).save(root / "a/alpha.png")
    one = build(root, tmp_path / "one", processes=1)
    two = build(root, tmp_path / "two", processes=2)
    assert one.hash == two.hash
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_added_pictures_move_no_others(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 60, "b": 60})
    first = build(root, tmp_path / "first", val=0.2, test=0.1)
    before = {name: features["split"] for name, features in examples(tmp_path / "first").items()}
    write_folders(root, {"a": 30, "c": 20}, start=1000)
    second = build(root, tmp_path / "second", val=0.2, test=0.1)
    after = {name: features["split"] for name, features in examples(tmp_path / "second").items()}
    assert {name: after[name] for name in before} == before
    assert set(before.values()) == {"train", "val", "test"}
    assert first.hash != second.hash


def test_about_as_many_are_held_back_as_was_asked_for(tmp_path):
    write_folders(tmp_path / "pets", {"a": 200, "b": 200})
    result = build(tmp_path / "pets", tmp_path / "out", val=0.25, test=0.1)
    val, test = sum(result.counts["val"]), sum(result.counts["test"])
    # Binomial, six standard deviations.
    assert abs(val - 100) < 52
    assert abs(test - 40) < 36
    assert val + test + sum(result.counts["train"]) == 400


@pytest.mark.parametrize("val", [0.1, 0.5, 0.95])
def test_small_classes_have_a_training_picture_and_lacking_validation_is_named(tmp_path, val):
    write_folders(tmp_path / "pets", {"one": 1, "two": 2, "three": 3, "forty": 40, "none": 0})
    result = build(tmp_path / "pets", tmp_path / "out", val=val)
    assert result.classes == ("forty", "one", "three", "two")
    assert all(count >= 1 for count in result.counts["train"])
    assert result.empty_classes == ("none",)
    assert "one" in result.without_validation
    assert result.without_validation == tuple(
        name for name, count in zip(result.classes, result.counts["val"], strict=True) if count == 0
    )
    assert result.without_training == ()
    assert len(result.moved_to_training) == len(set(result.moved_to_training))
    assert result.num_pictures == 46


def test_hidden_files_are_left_out_and_nested_ones_belong_to_the_first_level(tmp_path):
    root = write_folders(tmp_path / "pets", {"cat/young/black": 2, "cat": 1, "dog": 2}, start=5)
    (root / ".git").mkdir()
    (root / ".git/1.jpg").write_bytes(jpeg(100))
    (root / "dog/.DS_Store").write_bytes(b"x")
    (root / "dog/._9.jpg").write_bytes(jpeg(101))
    (root / "dog/notes.txt").write_text("a dog")
    (root / "dog/no suffix").write_bytes(jpeg(102))
    result = build(root, tmp_path / "out", val=0)
    assert result.classes == ("cat", "dog")
    assert result.counts["train"] == (3, 3)
    assert result.ignored == ("dog/notes.txt",)
    assert "cat/young/black/5.jpg" in examples(tmp_path / "out")
    assert "dog/no suffix" in examples(tmp_path / "out")


def test_depth_two_names_classes_by_two_levels(tmp_path):
    root = write_folders(tmp_path / "pets", {"cat/small": 2, "dog/small": 2, "dog/tall": 2})
    result = build(root, tmp_path / "out", depth=2)
    assert result.classes == ("cat/small", "dog/small", "dog/tall")


def test_names_in_any_script_are_kept(tmp_path):
    counts = {"花": 2, "树": 2, "C++": 2, "C#": 2, " blank ": 2, "[b]": 2}
    root = write_folders(tmp_path / "植物", counts)
    (root / "花/a[1].jpg").write_bytes(jpeg(77))
    result = build(root, tmp_path / "out", val=0)
    assert result.name == "植物"
    assert sorted(result.classes) == sorted(counts)
    assert (tmp_path / "out/labels.txt").read_text("utf-8").split("\n")[:-1] == list(result.classes)
    found = examples(tmp_path / "out")["花/a[1].jpg"]
    assert found["image/class/text"] == "花".encode()
    assert found["image/encoded"] == jpeg(77)


def test_the_c_locale_changes_nothing(tmp_path):
    root = write_folders(tmp_path / "pets", {"花": 2, "树": 2})
    (root / "花/a[1].jpg").write_bytes(jpeg(77))
    for locale, out in (("C", "one"), ("C.UTF-8", "two")):
        command = ("-m", "scripts.main", "data", "build", str(root), out, "--json")
        done = run_python(*command, cwd=tmp_path, LANG=locale, LC_ALL=locale)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["classes"] == ["树", "花"]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_program_from_stdin_needs_no_main_guard(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 40, "b": 40})
    program = (
        "import sys\n"
        "from finetune.datasets.build import build\n"
        f"print(build({str(root)!r}, {str(tmp_path / 'out')!r}, processes=2).num_pictures)\n"
        "print('tensorflow' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = run_python(program=program)
    assert done.stdout.split() == ["80", "False", "True"], done.stderr


def test_workers_load_neither_tensorflow_nor_numpy():
    program = (
        "import sys, finetune.datasets.cleaning\n"
        "print({'tensorflow', 'numpy', 'matplotlib'} & set(sys.modules))"
    )
    done = run_python("-c", program)
    assert done.stdout == "set()\n", done.stderr


def write_broken(root):
    (root / "a/cut.jpg").write_bytes(jpeg(900)[:400])
    (root / "a/empty.jpg").write_bytes(b"")
    (root / "b/text.jpg").write_text("no picture")
    (root / "b/garbage.jpg").write_bytes(jpeg(901) + b"garbage")


def test_broken_pictures_are_skipped_named_and_counted(tmp_path, heard):
    root = write_folders(tmp_path / "pets", {"a": 5, "b": 5})
    write_broken(root)
    result = build(root, tmp_path / "out", val=0, progress=heard)
    assert result.num_pictures == 11
    assert [(item.path, item.kind) for item in result.skipped] == [
        (str(root / "a/cut.jpg"), "truncated"),
        (str(root / "a/empty.jpg"), "empty"),
        (str(root / "b/text.jpg"), "not-a-picture"),
    ]
    assert f"Skipped {root}/a/empty.jpg: is empty (0 bytes)" in heard.said
    assert result.changes == {"bytes after the end of the JPEG cut off": 1}
    assert examples(tmp_path / "out")["b/garbage.jpg"]["image/encoded"] == jpeg(901)


def test_a_broken_picture_stops_the_build_where_that_was_asked_for(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 5, "b": 5})
    build(root, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    write_broken(root)
    with pytest.raises(DataError, match=r"cut\.jpg is cut short: the JPEG has no end marker"):
        build(root, tmp_path / "out", on_error="fail", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pets"]


def test_a_class_of_broken_pictures_is_no_class(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 0, "b": 2, "c": 2})
    (root / "a/empty.jpg").write_bytes(b"")
    result = build(root, tmp_path / "out", val=0)
    assert result.classes == ("b", "c")
    assert result.empty_classes == ("a",)
    assert {f["image/class/label"] for f in examples(tmp_path / "out").values()} == {0, 1}


def test_nothing_but_broken_pictures(tmp_path):
    (tmp_path / "pets/a").mkdir(parents=True)
    (tmp_path / "pets/a/empty.jpg").write_bytes(b"")
    with pytest.raises(DataError, match="has no usable picture"):
        build(tmp_path / "pets", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_formats_are_stored_as_what_image_format_says(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 1, "b": 1})
    picture = Image.open(io.BytesIO(jpeg(50)))
    for kind in ("PNG", "GIF", "BMP", "WEBP", "TIFF"):
        buffer = io.BytesIO()
        picture.save(buffer, kind)
        (root / f"a/{kind}.jpg").write_bytes(buffer.getvalue())
    other = Image.open(io.BytesIO(jpeg(51)))
    picture.save(root / "a/animated.jpg", "GIF", save_all=True, append_images=[other])
    result = build(root, tmp_path / "out", val=0)
    for name, features in examples(tmp_path / "out").items():
        heads = {b"jpeg": b"\xff\xd8\xff", b"png": b"\x89PNG"}
        assert features["image/encoded"].startswith(heads[features["image/format"]]), name
    assert result.num_pictures == 8
    assert result.changes["PNG named .jpg"] == 1
    assert result.changes["GIF named .jpg"] == 2
    assert result.changes["first of several pictures in a GIF"] == 1
    assert result.changes["TIFF to PNG"] == 1
    assert result.changes["WEBP to JPEG"] == 1


def test_one_picture_in_two_classes_is_reported_and_repeats_are_counted(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 3, "b": 3})
    (root / "b/copy.jpg").write_bytes((root / "a/0.jpg").read_bytes())
    (root / "a/again.jpg").write_bytes((root / "a/1.jpg").read_bytes())
    result = build(root, tmp_path / "out")
    assert result.duplicates == (("a/0.jpg", "b/copy.jpg"),)
    assert result.repeated == 1
    # The same content is in the same split, so none leaks from training into validation.
    found = examples(tmp_path / "out")
    assert found["a/1.jpg"]["split"] == found["a/again.jpg"]["split"]


def test_given_splits_are_kept(tmp_path, heard):
    root = tmp_path / "pets"
    write_folders(root / "train", {"a": 40, "b": 40})
    write_folders(root / "test", {"a": 5, "b": 3}, start=500)
    (root / "test/b/copy.jpg").write_bytes((root / "train/b/40.jpg").read_bytes())
    result = build(root, tmp_path / "out", val=0.2, progress=heard)
    assert result.classes == ("a", "b")
    assert result.counts["test"] == (5, 4)
    assert sum(result.counts["val"]) > 0
    assert sum(result.counts["train"]) + sum(result.counts["val"]) == 80
    assert result.duplicates == (("train/b/40.jpg", "test/b/copy.jpg"),)
    assert "The source's own splits are kept: train, test." in heard.said
    write_folders(root / "validation", {"a": 2, "b": 2}, start=600)
    result = build(root, tmp_path / "out", val=0.2, overwrite=True)
    assert result.counts["val"] == (2, 2)
    assert sum(result.counts["train"]) == 80


def test_the_folder_above_the_root(tmp_path):
    write_folders(tmp_path / "data/pets", {"a": 3, "b": 4})
    with pytest.raises(DataError) as caught:
        build(tmp_path / "data", tmp_path / "out")
    assert "one folder with pictures below it" in caught.value.message
    assert "  pets/  7 pictures\n    a/  3 pictures\n    b/  4 pictures" in caught.value.message
    assert caught.value.next_step.endswith(f"are the classes: {tmp_path}/data/pets")


def test_the_folder_above_several_roots_is_built_and_questioned(tmp_path, heard):
    write_folders(tmp_path / "data", {"pets/a": 3, "pets/b": 4, "birds/c": 2, "birds/d": 2})
    result = build(tmp_path / "data", tmp_path / "out", progress=heard)
    assert result.classes == ("birds", "pets")
    assert any("  birds/  4 pictures\n    c/  2 pictures" in line for line in heard.said)
    assert any("if those are the classes, use --depth 2" in line for line in heard.said)


def test_one_class_folder(tmp_path):
    write_folders(tmp_path / "pets", {"a": 3, "b": 4})
    with pytest.raises(DataError, match="has no class folders at depth 1") as caught:
        build(tmp_path / "pets/a", tmp_path / "out")
    assert caught.value.next_step == f"Give the folder above it: {tmp_path / 'pets'}"


def test_pictures_beside_the_class_folders(tmp_path):
    write_folders(tmp_path / "pets", {"a": 3, "b": 4})
    (tmp_path / "pets/stray.jpg").write_bytes(jpeg(1))
    with pytest.raises(DataError, match="1 pictures lie beside the class folders") as caught:
        build(tmp_path / "pets", tmp_path / "out")
    assert "stray.jpg" in caught.value.message


def test_a_root_without_pictures(tmp_path):
    with pytest.raises(NotFoundError, match="gone is not there"):
        build(tmp_path / "gone", tmp_path / "out")
    (tmp_path / "pets").mkdir()
    (tmp_path / "pets/a.txt").write_text("x")
    with pytest.raises(DataError, match="holds no pictures") as caught:
        build(tmp_path / "pets", tmp_path / "out")
    assert "a.txt" in caught.value.received
    build(write_folders(tmp_path / "real", {"a": 1, "b": 1}), tmp_path / "shards")
    with pytest.raises(DataError, match="holds shards, not pictures"):
        build(tmp_path / "shards", tmp_path / "out")


def test_links_that_lead_in_a_circle_end(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 2, "b": 2})
    (root / "a/up").symlink_to(root)
    assert len(read_source(root).items) == 4


def test_only_datasets_are_replaced_and_never_the_pictures(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 2, "b": 2})
    build(root, tmp_path / "out")
    with pytest.raises(OutputExistsError, match="is already there"):
        build(root, tmp_path / "out")
    build(root, tmp_path / "out", overwrite=True)
    for out in (root, tmp_path):
        with pytest.raises(UsageError, match="holds the pictures"):
            build(root, out, overwrite=True)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters/dear.txt").write_text("me")
    with pytest.raises(OutputExistsError, match="--overwrite replaces datasets only"):
        build(root, tmp_path / "letters", overwrite=True)
    assert (tmp_path / "letters/dear.txt").read_text() == "me"


@pytest.mark.parametrize(
    "options", [{"val": 1.0}, {"val": -0.1}, {"val": 0.6, "test": 0.4}, {"shards": 0}, {"depth": 0}]
)
def test_numbers_out_of_range(tmp_path, options):
    with pytest.raises(UsageError):
        build(tmp_path, tmp_path / "out", **options)


def test_max_side_shrinks(tmp_path):
    root = write_folders(tmp_path / "pets", {"a": 1, "b": 1})
    (root / "a/large.jpg").write_bytes(jpeg(3, (100, 50)))
    result = build(root, tmp_path / "out", val=0, max_side=20)
    large = examples(tmp_path / "out")["a/large.jpg"]
    assert (large["image/height"], large["image/width"]) == (10, 20)
    assert result.changes == {"shrunk": 1}


@pytest.mark.tensorflow
def test_tensorflow_reads_the_shards(tmp_path):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    root = write_folders(tmp_path / "pets", {"cat": 6, "花": 6})
    build(root, tmp_path / "out", val=0)
    paths = sorted(str(path) for path in (tmp_path / "out").glob("*.tfrecord"))
    scalars = {
        "image/encoded": tf.string,
        "image/format": tf.string,
        "image/height": tf.int64,
        "image/width": tf.int64,
        "image/class/label": tf.int64,
        "image/class/text": tf.string,
        "image/filename": tf.string,
    }
    description = {name: tf.io.FixedLenFeature([], dtype) for name, dtype in scalars.items()}
    seen = 0
    for record in tf.data.TFRecordDataset(paths):
        parsed = tf.io.parse_single_example(record, description)
        name = parsed["image/filename"].numpy().decode()
        assert parsed["image/encoded"].numpy() == (root / name).read_bytes()
        assert tf.io.decode_jpeg(parsed["image/encoded"]).shape == (9, 12, 3)
        assert name.startswith(parsed["image/class/text"].numpy().decode())
        assert parsed["image/class/label"].numpy() == ["cat", "花"].index(name.split("/")[0])
        seen += 1
    assert seen == 12


def test_real_flowers(tmp_path, shared):
    result = build(shared / "data/flowers12", tmp_path / "out")
    assert result.num_pictures == 960
    assert len(result.classes) == 12
    assert result.counts["test"] == (20,) * 12
    assert (result.skipped, result.changes, result.duplicates) == ((), {}, ())
    found = examples(tmp_path / "out", "test")
    assert len(found) == 240
    for name, features in found.items():
        source = shared / "data/flowers12" / name
        assert features["image/encoded"] == source.read_bytes()


def test_a_link_to_itself_and_a_folder_that_cannot_be_read_are_skipped(tmp_path, monkeypatch):
    root = write_folders(tmp_path / "pets", {"cat": 2, "dog": 2, "eel": 1})
    (root / "cat/self.jpg").symlink_to("self.jpg")
    (root / "cat/self").symlink_to("self")
    scan = os.scandir

    def refusing(path):
        if str(path).endswith("eel"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    result = build(root, tmp_path / "out", val=0, processes=1)
    assert result.num_pictures == 4
    assert result.ignored == ("cat/self",)
    assert result.empty_classes == ("eel",)
    assert [(item.path, item.kind) for item in result.skipped] == [
        (f"{root}/eel", "unreadable"),
        (f"{root}/cat/self.jpg", "unreadable"),
    ]
    assert result.skipped[0].detail == "is a folder that cannot be read (Permission denied)"
    found = {(item.kind, item.path) for item in check(root, processes=1).problems}
    assert {(item.kind, item.path) for item in result.skipped} <= found
    with pytest.raises(DataError, match="is a folder that cannot be read"):
        build(root, tmp_path / "other", on_error="fail", processes=1)


def test_an_output_inside_the_pictures_is_refused(tmp_path):
    root = write_folders(tmp_path / "pets", {"cat": 2, "dog": 2})
    with pytest.raises(UsageError, match="lies inside"):
        build(root, root / "shards")
    picture = next((root / "cat").iterdir())
    with pytest.raises(UsageError, match="lies inside"):
        draw_sheet(root, picture.with_name("sheet.png"), overwrite=True)
    with pytest.raises(UsageError, match=r"does not end in \.png"):
        draw_sheet(root, tmp_path / "sheet.jpg")


@pytest.mark.parametrize(
    "options", [{"on_error": "stop"}, {"val": "0.1"}, {"shards": 1.5}, {"depth": None}]
)
def test_nonsense_from_python_is_refused(tmp_path, options):
    with pytest.raises(UsageError):
        build(tmp_path / "pets", tmp_path / "out", **options)


def test_class_names_that_are_nearly_the_same_are_told(tmp_path, heard):
    build(write_folders(tmp_path / "pets", {"Cat": 2, "cat": 2}), tmp_path / "out", progress=heard)
    assert "Classes of nearly the same name: 'Cat', 'cat'." in heard.said


def test_the_python_batches_of_cifar_are_named(tmp_path):
    for name in ("data_batch_1", "test_batch"):
        (tmp_path / name).write_bytes(b"\x80\x03}q")
    with pytest.raises(DataError, match="Python batches") as caught:
        read_source(tmp_path)
    assert caught.value.received == "data_batch_1, test_batch"
