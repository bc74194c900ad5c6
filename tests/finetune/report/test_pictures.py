import base64
import io
import shutil

import numpy as np
import pytest
from PIL import Image

from finetune.datasets.picture_formats import PictureError
from finetune.report.facts import read_facts
from finetune.report.pictures import (
    THUMBNAIL_SIDE,
    find_data,
    make_thumbnail,
    surest_mistakes,
    surest_right_answers,
    thumbnail_of_file,
)
from finetune.run import Run


def decoded(address):
    head, _, text = address.partition(",")
    assert head == "data:image/jpeg;base64"
    data = base64.b64decode(text)
    assert b"private" not in data
    return Image.open(io.BytesIO(data))


def encoded(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def test_a_large_picture_is_made_small_and_keeps_its_proportions():
    data = encoded(Image.new("RGB", (640, 320), (200, 30, 30)), "JPEG", comment=b"private")
    thumbnail = decoded(make_thumbnail("a.jpg", data))
    assert thumbnail.size == (THUMBNAIL_SIDE, THUMBNAIL_SIDE // 2)
    assert np.allclose(np.asarray(thumbnail).mean(axis=(0, 1)), (200, 30, 30), atol=4)


def test_a_small_picture_is_not_enlarged_and_loses_its_metadata():
    data = encoded(Image.new("L", (20, 30), 90), "JPEG", comment=b"private")
    thumbnail = decoded(make_thumbnail("a.jpg", data))
    assert (thumbnail.size, thumbnail.mode) == ((20, 30), "RGB")


def test_a_turned_picture_stands_upright():
    image = Image.new("RGB", (80, 40), (0, 0, 0))
    exif = image.getexif()
    exif[0x0112] = 6
    assert decoded(make_thumbnail("a.jpg", encoded(image, "JPEG", exif=exif))).size == (40, 80)


def test_what_is_no_picture_has_no_thumbnail(tmp_path):
    with pytest.raises(PictureError):
        make_thumbnail("a.jpg", b"no picture")
    file = tmp_path / "array.npy"
    np.save(file, np.zeros(3))
    assert thumbnail_of_file(str(file)) is None
    assert thumbnail_of_file(str(tmp_path / "absent.jpg")) is None
    assert thumbnail_of_file("a\0b.jpg") is None


def test_each_answer_has_its_own_picture(make_run):
    facts = read_facts(Run(make_run().path))
    found = find_data(facts)
    assert found.problem is None
    for answer in facts.scores.answers:
        red, green, _ = np.asarray(decoded(found.pictures.thumbnail(answer))).mean(axis=(0, 1))
        name = facts.scores.classes[answer.label]
        # The pictures of conftest: red tells the class, green the number in the file's name.
        folders = sorted(facts.scores.classes)
        assert name in folders
        number = int(answer.name.rpartition(">")[2].removesuffix(".jpg"))
        assert abs(green - 30 * number) < 5
        assert answer.name == f"{name}/a<b>{number}.jpg"
        assert min(abs(red - level) for level in (40, 110, 180)) < 5


def test_mistakes_stand_surest_first_and_right_answers_one_a_class(make_run):
    scores = read_facts(Run(make_run().path)).scores
    mistakes = surest_mistakes(scores)
    assert len(mistakes) == 3
    assert all(not a.is_right for a in mistakes)
    assert [a.probability for a in mistakes] == sorted(a.probability for a in mistakes)[::-1]
    right = surest_right_answers(scores)
    assert len({a.label for a in right}) == len(right) > 0
    for answer in right:
        of_class = [a for a in scores.answers if a.is_right and a.label == answer.label]
        assert answer.probability == max(a.probability for a in of_class)


def test_data_that_moved_with_the_run_is_found(make_run, tmp_path, hostile_data):
    moved = tmp_path / "moved"
    made = make_run(moved / "run", data=hostile_data)
    config = (made.path / "config.json").read_text()
    (made.path / "config.json").write_text(config.replace(str(hostile_data), "/gone/away"))
    assert find_data(read_facts(Run(made.path))).problem == (
        "The dataset /gone/away is no longer there"
    )
    shutil.copytree(hostile_data, moved / "away")
    found = find_data(read_facts(Run(made.path)))
    assert found.dataset.path == moved / "away"
    assert found.pictures is not None


def test_other_pictures_than_the_evaluated_are_not_shown(make_run, tmp_path, hostile_data):
    made = make_run()
    evaluation = made.path / "evaluation.json"
    evaluation.write_text(evaluation.read_text().replace("a<b>", "b<b>"))
    found = find_data(read_facts(Run(made.path)))
    assert found.pictures is None
    assert found.problem == f"The dataset {hostile_data} holds other pictures than were evaluated"


def test_a_damaged_dataset_is_named(make_run, tmp_path, hostile_data):
    data = tmp_path / "data"
    shutil.copytree(hostile_data, data)
    made = make_run(data=data)
    shard = sorted(data.glob("*_val_*"))[0]
    shard.write_bytes(shard.read_bytes()[:-5])
    found = find_data(read_facts(Run(made.path)))
    assert found.pictures is None
    assert shard.name in found.problem
    assert "the file ends inside the record" in found.problem
