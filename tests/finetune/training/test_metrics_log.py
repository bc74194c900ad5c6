import io

import numpy as np
import pytest
from PIL import Image

from exporters.runtime import load_tensorflow
from finetune.datasets.dataset import read_dataset
from finetune.preprocessing import Preprocessing
from finetune.run import Run
from finetune.training.first_pictures import as_pixels, lay_out, log_training_sheet
from finetune.training.metrics_log import MetricsLog, histogram

pytestmark = pytest.mark.tensorflow


def test_a_histogram_counts_every_value_once():
    values = np.array([[0.0, 1.0], [2.0, 4.0]], np.float32)
    found = histogram(values)
    assert (found.min, found.max, found.num, found.sum, found.sum_squares) == (0, 4, 4, 7, 21)
    assert sum(found.bucket) == 4
    assert found.bucket_limit[-1] == 4
    # Forty buckets of a tenth: 0 in the first, 1 in the eleventh.
    assert [place for place, count in enumerate(found.bucket) if count] == [0, 10, 20, 39]


def test_a_constant_variable_has_a_histogram_too():
    found = histogram(np.zeros(3))
    assert (found.num, sum(found.bucket)) == (3, 3)


def test_the_sheet_has_pictures_in_rows():
    pictures = np.stack([np.full((2, 2, 3), value, np.uint8) for value in (10, 20, 30)])
    sheet = lay_out(pictures)
    assert sheet.shape == (8, 8, 3)
    assert (sheet[0, 0, 0], sheet[1, 7, 1], sheet[7, 1, 2], sheet[7, 7, 0]) == (10, 20, 30, 255)


def test_the_range_of_the_input_is_the_range_of_pixels():
    inputs = np.array([-1.0, 0.0, 1.0, 1.5], np.float32)
    assert as_pixels(inputs, Preprocessing("inception", 16)).tolist() == [0, 128, 255, 255]


def test_tensorboard_gets_histograms_and_the_sheet(colours, tmp_path):
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        variable = v1.get_variable("Net/weights", initializer=np.arange(6, dtype=np.float32))
        broken = v1.get_variable("Net/broken", initializer=np.full(2, np.nan, np.float32))
        session.run(v1.global_variables_initializer())
        log = MetricsLog(Run(tmp_path), graph)
        log.write_variables(7, session, [variable, broken])
        log_training_sheet(log, read_dataset(colours), Preprocessing("inception", 16), "full", 3)
        log.close()
    (events,) = tmp_path.glob("events.out.tfevents.*")
    found = {
        value.tag: (event.step, value)
        for event in v1.train.summary_iterator(str(events))
        for value in event.summary.value
    }
    assert found.keys() == {"variables/Net/weights", "train/pictures"}
    step, value = found["variables/Net/weights"]
    assert (step, value.histo.num, value.histo.max) == (7, 6, 5)
    _, value = found["train/pictures"]
    with Image.open(io.BytesIO(value.image.encoded_image_string)) as sheet:
        assert sheet.size == (value.image.width, value.image.height) == (76, 76)
