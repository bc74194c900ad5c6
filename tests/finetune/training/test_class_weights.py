import numpy as np
import pytest

from checkpoints.errors import DataError, NotFoundError
from finetune.datasets.dataset import read_dataset
from finetune.training.class_weights import balanced_weights, find_class_weights


def test_balanced_weights_make_every_class_count_alike():
    weights = balanced_weights([10, 30, 0, 60])
    assert weights == pytest.approx((100 / 30, 100 / 90, 1.0, 100 / 180))
    assert np.allclose(np.multiply(weights, [10, 30, 0, 60])[[0, 1, 3]], 100 / 3)


def test_training_pictures_are_counted(colours):
    dataset = read_dataset(colours)
    assert find_class_weights(None, dataset) == ()
    weights = find_class_weights("balanced", dataset)
    assert np.dot(weights, dataset.counts["train"]) == pytest.approx(sum(dataset.counts["train"]))


@pytest.mark.parametrize("header", ["", "class,weight\n"])
def test_a_file_gives_each_class_a_weight_in_any_order(colours, tmp_path, header):
    file = tmp_path / "weights.csv"
    file.write_text(header + "red,3\ngreen,0.5\nblue, 2\n", encoding="utf-8")
    assert find_class_weights(str(file), read_dataset(colours)) == (2.0, 0.5, 3.0)


def test_everything_wrong_with_a_file_is_named_at_once(colours, tmp_path):
    file = tmp_path / "weights.csv"
    file.write_text("red,3\nred,4\npink,1\nblue,-1\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        find_class_weights(str(file), read_dataset(colours))
    lines = caught.value.message.split("\n")[1:]
    assert lines == [
        "  line 2: red,4",
        "  line 3: pink,1",
        "  line 4: blue,-1",
        "  no line for blue",
        "  no line for green",
    ]


def test_a_file_that_is_not_there_is_named(colours, tmp_path):
    with pytest.raises(NotFoundError, match="balanced"):
        find_class_weights(str(tmp_path / "none.csv"), read_dataset(colours))
