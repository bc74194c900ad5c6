import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finetune.workers.part import Part


@given(st.integers(1, 5), st.integers(1, 7), st.integers(0, 40), st.integers(0, 60))
def test_the_parts_of_a_batch_are_the_batch(count, rows, start_step, steps):
    batch = rows * count
    parts = [Part(batch, index, count) for index in range(count)]
    for part in parts:
        assert part.rows == rows
    taken = [part.places(start_step * rows, steps * rows).reshape(steps, rows) for part in parts]
    joined = np.concatenate(taken, axis=1).reshape(-1)
    assert joined.tolist() == list(range(start_step * batch, (start_step + steps) * batch))


@pytest.mark.parametrize("start", [0, 5, 17])
def test_alone_a_part_is_all(start):
    assert Part(4).places(start, 9).tolist() == list(range(start, start + 9))
