"""A trunk that has learned nothing, to see what a learned one is worth."""

from __future__ import annotations

from pathlib import Path

import checkpoints
from checkpoints.progress import SILENT, Progress
from checkpoints.published import get_net
from exporters.runtime import load_tensorflow, session_config
from finetune.datasets.dataset import Dataset
from finetune.input_pipeline import training_dataset
from finetune.nets.build import build_net
from finetune.pipeline_errors import data_errors
from finetune.planning import read_values
from finetune.preprocessing import Preprocessing

DECAY = 0.9
BATCHES = 40
"""After so many batches at that decay 1.5 % of the averages' initial values are left."""


def write_random_trunk(
    path: Path,
    net: str,
    dataset: Dataset,
    *,
    batch_size: int = 32,
    seed: int = 0,
    progress: Progress = SILENT,
) -> None:
    """Writes a checkpoint of a net as its initialisers leave it, batch norm settled on the data.

    With batch-norm averages at their initial values a random trunk would be worse than it has
    to be, and the comparison unfair.

    Args:
      path: the checkpoint's prefix.
      net: name of the net.
      dataset: whose training pictures the averages are taken over.
      batch_size: pictures a batch.
      seed: of the initialisers and of the order of the pictures.
      progress: where it tells how far it is.
    """
    tf = load_tensorflow()
    v1 = tf.compat.v1
    record = get_net(net)
    preprocessing = Preprocessing(record.preprocessing, record.image_size)
    with tf.Graph().as_default():
        v1.set_random_seed(seed)
        batches = training_dataset(dataset, preprocessing, batch_size, seed, "none")
        iterator = v1.data.make_initializable_iterator(batches)
        images, _ = iterator.get_next()
        build_net(record, images, len(dataset.classes), is_training=True, batch_norm_decay=DECAY)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        variables = v1.global_variables()
        with (
            v1.Session(config=session_config()) as session,
            progress.task("Settling a random trunk", BATCHES, "batches") as task,
            data_errors(dataset, progress),
        ):
            session.run([iterator.initializer, v1.global_variables_initializer()])
            for _ in range(BATCHES):
                session.run(updates)
                task.advance()
            checkpoints.write(path, read_values(session, variables))
