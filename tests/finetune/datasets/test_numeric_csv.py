"""Tables of numbers from CSV files, with the heart data of the notes as the example."""

from __future__ import annotations

import numpy as np
import pytest

from checkpoints.errors import DataError, NotFoundError, UsageError
from finetune.data import read_numeric_csv, shuffled_batches

HEART = """sbp,tobacco,ldl,adiposity,famhist,typea,obesity,alcohol,age,chd
160,12,5.73,23.11,Present,49,25.3,97.2,52,1
144,.01,4.41,28.61,Absent,55,28.87,2.06,63,1
118,0.08,3.48,32.28,Present,52,29.14,,46,0
"""
DEFAULTS = [0.0, 0.0, 0.0, 0.0, "Absent", 0.0, 0.0, 2.5, 0.0, 0]
CATEGORIES = {"Present": 1, "Absent": 0}
ROWS = [
    [160, 12, 5.73, 23.11, 1, 49, 25.3, 97.2, 52],
    [144, 0.01, 4.41, 28.61, 0, 55, 28.87, 2.06, 63],
    [118, 0.08, 3.48, 32.28, 1, 52, 29.14, 2.5, 46],
]


def write(tmp_path, text):
    path = tmp_path / "heart.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_heart_data(tmp_path):
    table = read_numeric_csv(write(tmp_path, HEART), DEFAULTS, categories=CATEGORIES)
    assert table.names == tuple(HEART.split("\n")[0].split(",")[:-1])
    assert (table.features.dtype, table.features.shape) == (np.float32, (3, 9))
    np.testing.assert_array_equal(table.features, np.array(ROWS, np.float32))
    assert table.labels.dtype == np.int64
    assert table.labels.tolist() == [1, 1, 0]


def test_a_mark_quotes_blanks_and_no_header(tmp_path):
    text = '\ufeff"1", 2.5,"no"\r\n\r\n0,,yes\r\n'
    table = read_numeric_csv(
        write(tmp_path, text),
        [7, -1.5, "no"],
        categories={"no": 3, "yes": 4},
        label=0,
        header=False,
    )
    assert table.names == ("1", "2")
    assert table.features.tolist() == [[2.5, 3], [-1.5, 4]]
    assert table.labels.tolist() == [1, 0]


def test_what_is_wrong_is_told_with_its_lines(tmp_path):
    text = "a,b,c,d\n1,2,x,0\n1,,Yes,0\n1,2,No,1.5\n1,nan,No,0\n1,2,No\n1,1e39,No,0\n"
    with pytest.raises(DataError) as caught:
        read_numeric_csv(
            write(tmp_path, text), [0.0, None, "No", 0], categories={"No": 0, "Yes": 1}
        )
    assert caught.value.message.split("\n")[1:] == [
        "  line 2, column 2: 'x' is not one of 'No', 'Yes'",
        "  line 3, column 1: '' is not a number of 32 bits",
        "  line 4, column 3: '1.5' is not a whole number",
        "  line 5, column 1: 'nan' is not a number of 32 bits",
        "  line 6: 3 cells, not 4",
        "  line 7, column 1: '1e39' is not a number of 32 bits",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no rows"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,\xe9\n".encode("latin-1"), "is not UTF-8"),
        ('a,b\n1,"2\n', "line 2: unexpected end of data"),
        ("a,b\n1,0.5\n", "labels in column 1 are no whole numbers"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        read_numeric_csv(write(tmp_path, text), [0.0, 0.0])


def test_arguments_that_do_not_fit(tmp_path):
    path = write(tmp_path, HEART)
    with pytest.raises(UsageError, match="label's column is not there"):
        read_numeric_csv(path, DEFAULTS, categories=CATEGORIES, label=10)
    with pytest.raises(UsageError, match="The default 'Absent' is no category"):
        read_numeric_csv(path, DEFAULTS)
    with pytest.raises(NotFoundError, match=r"gone\.csv is not there"):
        read_numeric_csv(tmp_path / "gone.csv", DEFAULTS, categories=CATEGORIES)


@pytest.mark.tensorflow
def test_tensorflow_decodes_the_same(tmp_path):
    from exporters.runtime import load_tensorflow

    tf = load_tensorflow()
    table = read_numeric_csv(write(tmp_path, HEART), DEFAULTS, categories=CATEGORIES)
    lines = tf.data.TextLineDataset(str(tmp_path / "heart.csv")).skip(1)
    defaults = [[value] for value in DEFAULTS]
    for number, line in enumerate(lines):
        *features, label = tf.io.decode_csv(line, record_defaults=defaults)
        features[4] = tf.where(features[4] == "Present", 1.0, 0.0)
        np.testing.assert_array_equal(tf.stack(features).numpy(), table.features[number])
        assert int(label) == table.labels[number]


@pytest.mark.tensorflow
def test_batches_hold_every_row_once_an_epoch_in_new_orders(tmp_path):
    text = "x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(50))
    table = read_numeric_csv(write(tmp_path, text), [0.0, 0])
    batches = list(shuffled_batches(table, 8, epochs=2, seed=5).as_numpy_iterator())
    assert [len(labels) for _, labels in batches] == [8] * 12 + [4]
    assert (batches[0][0].dtype, batches[0][0].shape) == (np.float32, (8, 1))
    rows = np.concatenate([features[:, 0] for features, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    assert (labels == rows % 2).all()
    first, second = rows[:50], rows[50:]
    assert sorted(first) == sorted(second) == list(range(50))
    assert (first != second).any()
    again = list(shuffled_batches(table, 8, epochs=2, seed=5).as_numpy_iterator())
    np.testing.assert_array_equal(np.concatenate([f[:, 0] for f, _ in again]), rows)
    static = shuffled_batches(table, 8, drop_remainder=True).element_spec
    assert static[0].shape == (8, 1)
