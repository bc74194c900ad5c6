"""Reading back what was built."""

from __future__ import annotations

import pytest

from finetune.datasets.dataset import read_dataset
from finetune.datasets.records import parse_example, read_records


@pytest.fixture
def examples():
    """Gives the records of a dataset: file name -> its features, with the split as `split`."""

    def read(out):
        found = {}
        for name, split in read_dataset(out).splits.items():
            for shard in split.shards:
                for record in read_records(shard.path, shard.count):
                    features = {key: list(values) for key, values in parse_example(record).items()}
                    found[features["image/filename"][0].decode()] = features | {"split": name}
        return found

    return read
