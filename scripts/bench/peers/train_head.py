"""The plain recipe: a new head on Inception-v3 with TF-Slim, the whole net run in every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def train(dataset: str, checkpoint: str, classes: str, steps: str) -> Callable[[], Any]:
    """The step to be timed: so many steps of training, in float32.

    Args:
      dataset: directory of shards.
      checkpoint: prefix of Inception-v3's weights.
      classes: length of the logits.
      steps: how many are run a call.
    """
    import tensorflow as tf

    from finetune.slim import load_slim
    from scripts.bench.groups.read_pictures import BATCH
    from scripts.bench.peers.read_pictures import plain_batches

    v1 = tf.compat.v1
    slim = load_slim()  # TF-Slim itself no longer loads beside this TensorFlow
    from tf_slim.nets import inception

    with tf.Graph().as_default() as graph:
        batches = plain_batches(dataset, 299, is_training=True)
        iterator = v1.data.make_initializable_iterator(batches)
        images, labels = iterator.get_next()
        images.set_shape([None, 299, 299, 3])
        with slim.arg_scope(inception.inception_v3_arg_scope()):
            logits, _ = inception.inception_v3(images, int(classes), is_training=False)
        heads = ("InceptionV3/Logits", "InceptionV3/AuxLogits")
        restored = [v for v in v1.global_variables() if not v.op.name.startswith(heads)]
        saver = v1.train.Saver(restored)
        head = v1.trainable_variables("InceptionV3/Logits")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        train = v1.train.RMSPropOptimizer(0.01).minimize(loss, var_list=head)
        initializer = v1.global_variables_initializer()
        session = v1.Session(graph=graph)
        session.run([initializer, iterator.initializer])
        saver.restore(session, checkpoint)

    def run() -> dict[str, Any]:
        for _ in range(int(steps)):
            _, last = session.run((train, loss))
        return {"pictures": int(steps) * BATCH, "loss": float(last)}

    return run
