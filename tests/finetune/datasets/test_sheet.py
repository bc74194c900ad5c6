"""Contact sheets: what is on them, where, and in which script."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw

from checkpoints.errors import DataError, NotFoundError, OutputExistsError
from finetune.datasets.build import build
from finetune.datasets.fonts import SheetFont
from finetune.datasets.records import make_example, write_records
from finetune.datasets.sheet import CELL, draw_sheet

COLOURS = {"blue": (20, 40, 220), "green": (30, 160, 40), "red": (210, 30, 20)}


def write_folders(root, count=3):
    for name, colour in COLOURS.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            shade = tuple(channel + number for channel in colour)
            Image.new("RGB", (90 + number, 60), shade).save(root / name / f"{number}.png")
    return root


def read(path):
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def rows_of(sheet, colour):
    """The rows of pixels that hold about this colour."""
    return np.flatnonzero((np.abs(sheet - colour).max(-1) < 8).sum(1) > CELL // 2)


def test_a_row_for_each_class_in_order(tmp_path):
    root = write_folders(tmp_path / "pets")
    result = draw_sheet(root, tmp_path / "sheet.png", per_class=2)
    assert result.classes == ("blue", "green", "red")
    assert (result.num_pictures, result.left_out, result.missing_characters) == (6, 0, "")
    sheet = read(tmp_path / "sheet.png")
    rows = [rows_of(sheet, colour) for colour in COLOURS.values()]
    assert rows[0].max() < rows[1].min() <= rows[1].max() < rows[2].min()
    for place, colour in zip(rows, COLOURS.values(), strict=True):
        middle = sheet[int(np.median(place))]
        assert (np.abs(middle - colour).max(-1) < 8).sum() == 2 * CELL


def test_a_dataset_shows_the_same_pictures(tmp_path):
    build(write_folders(tmp_path / "pets"), tmp_path / "out", val=0)
    result = draw_sheet(tmp_path / "out", tmp_path / "sheet.png", per_class=3)
    assert result.num_pictures == 9
    sheet = read(tmp_path / "sheet.png")
    assert all(len(rows_of(sheet, colour)) > 60 for colour in COLOURS.values())


def test_broken_pictures_are_passed_over(tmp_path):
    root = write_folders(tmp_path / "pets")
    (root / "red/0.png").write_bytes(b"")
    assert draw_sheet(root, tmp_path / "sheet.png").num_pictures == 8


def test_nothing_to_show(tmp_path):
    (tmp_path / "pets/a").mkdir(parents=True)
    (tmp_path / "pets/a/1.png").write_bytes(b"")
    with pytest.raises(DataError, match="no usable picture to show"):
        draw_sheet(tmp_path / "pets", tmp_path / "sheet.png")


def test_an_existing_sheet_is_kept(tmp_path):
    root = write_folders(tmp_path / "pets")
    (tmp_path / "sheet.png").write_text("mine")
    with pytest.raises(OutputExistsError):
        draw_sheet(root, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_text() == "mine"
    draw_sheet(root, tmp_path / "sheet.png", overwrite=True)
    assert read(tmp_path / "sheet.png").shape[2] == 3


def test_many_classes_end_in_a_note(tmp_path):
    for number in range(30):
        (tmp_path / f"pets/{number}").mkdir(parents=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(tmp_path / f"pets/{number}/1.png")
    result = draw_sheet(tmp_path / "pets", tmp_path / "sheet.png", per_class=1)
    assert (len(result.classes), result.left_out) == (24, 6)
    assert result.classes[:3] == ("0", "1", "2")


def drawn(font, text, room=400):
    image = Image.new("RGB", (420, 30), "white")
    font.draw(ImageDraw.Draw(image), (4, 4), text, 16, (0, 0, 0), room)
    return np.asarray(image)


def test_text_in_several_scripts():
    font = SheetFont()
    for text in ("daisy", "Ромашка", "μαργαρίτα", "C++ & C#"):
        assert (drawn(font, text) < 128).any()
        assert font.missing == set()
    assert not np.array_equal(drawn(font, "C++"), drawn(font, "C#"))


def test_a_character_no_font_has_is_written_as_its_number(monkeypatch):
    import finetune.datasets.fonts

    monkeypatch.setattr(finetune.datasets.fonts, "_font_for", lambda character: None)
    font = SheetFont()
    written = drawn(font, "花")
    assert font.missing == {"花"}
    monkeypatch.undo()
    assert np.array_equal(written, drawn(SheetFont(), "U+82B1"))


def test_long_names_end_in_dots():
    font = SheetFont()
    shown = drawn(font, "a very long name of a class that does not fit" * 3, room=200)
    assert (shown[:, 210:] == 255).all()
    assert (shown[:, 150:205] < 128).any()


@pytest.mark.tensorflow
def test_views_as_the_net_sees_them(tmp_path):
    from finetune.preprocessing import Preprocessing

    build(write_folders(tmp_path / "pets"), tmp_path / "out", val=0)
    result = draw_sheet(
        tmp_path / "out",
        tmp_path / "sheet.png",
        mode="augment",
        preprocessing=Preprocessing("inception", 32),
    )
    assert result.num_pictures == 3
    sheet = read(tmp_path / "sheet.png")
    # The first view of each row is evaluation's: the picture's own colour, a whole square.
    for colour in COLOURS.values():
        first = np.abs(sheet[:, 20 : 20 + CELL] - colour).max(-1) < 8
        assert first.all(1).sum() == CELL
        others = np.abs(sheet[:, 30 + CELL :] - colour).max(-1) < 8
        assert others.sum() < 5 * CELL * CELL


@pytest.mark.tensorflow
def test_boxes_are_drawn_where_training_would_crop(tmp_path):
    build(write_folders(tmp_path / "pets"), tmp_path / "out", val=0)
    for name in ("one", "two"):
        draw_sheet(tmp_path / "out", tmp_path / f"{name}.png", mode="boxes", per_class=3)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    draw_sheet(tmp_path / "out", tmp_path / "plain.png", per_class=3)
    plain, boxes = read(tmp_path / "plain.png"), read(tmp_path / "one.png")
    assert plain.shape == boxes.shape
    changed = (np.abs(plain[60:] - boxes[60:]) > 30).any(-1)
    assert 500 < changed.sum() < changed.size / 4


def test_a_record_that_cannot_be_shown_is_named(tmp_path):
    path = tmp_path / "in/pets_train_00000-of-00001.tfrecord"
    path.parent.mkdir()
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "TIFF")
    for data, said in ((b"no picture", "is text"), (buffer.getvalue(), "is of a format")):
        write_records(path, [make_example({"image/encoded": data, "image/class/label": 0})])
        (path.parent / "labels.txt").write_text("a\n")
        with pytest.raises(DataError) as caught:
            draw_sheet(path.parent, tmp_path / "sheet.png")
        assert caught.value.message.startswith(f"{path}: record 0 (offset 0): the picture {said}")


def test_labels_without_a_class_are_called_by_their_numbers(tmp_path):
    """Older records count from 1; what they have as 0 is no class, nor is a label too high."""
    path = tmp_path / "in/pets_train_00000-of-00001.tfrecord"
    path.parent.mkdir()
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG")
    records = [
        {"image/encoded": buffer.getvalue(), "image/class/label": label, "image/class/text": text}
        for label, text in ((0, "background"), (1, "cat"), (2, "dog"), (7, "bird"))
    ]
    write_records(path, map(make_example, records))
    (path.parent / "labels.txt").write_text("cat\ndog\n")
    result = draw_sheet(path.parent, tmp_path / "sheet.png")
    assert result.classes == ("label 0", "cat", "dog", "label 7")


def test_a_split_of_pictures(tmp_path):
    write_folders(tmp_path / "pets/train")
    write_folders(tmp_path / "pets/val", count=1)
    assert draw_sheet(tmp_path / "pets", tmp_path / "s.png", split="validation").num_pictures == 3
    with pytest.raises(NotFoundError, match="no split 'test' of its own"):
        draw_sheet(tmp_path / "pets", tmp_path / "t.png", split="test")
