"""Makes the files of the group `files` with TensorFlow. Run as a program: it loads TensorFlow."""

from __future__ import annotations

import sys
from pathlib import Path

from exporters.runtime import load_tensorflow
from finetune.nets.build import INPUT, build_net

NET = "inception_v3"
CLASSES = 5


def main() -> None:
    """Writes DIRECTORY/v1/model.ckpt and DIRECTORY/v2/model.ckpt with .meta, the same values in both.

    Inception-v3 in evaluation mode with its 388 variables, at random values; TensorFlow's Saver
    writes them.
    """
    directory = Path(sys.argv[1])
    tf = load_tensorflow()
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.set_random_seed(0)
        images = v1.placeholder(tf.float32, [None, 299, 299, 3], name=INPUT)
        build_net(NET, images, CLASSES)
        savers = {
            "v1": v1.train.Saver(write_version=v1.train.SaverDef.V1),
            "v2": v1.train.Saver(),
        }
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for version, saver in savers.items():
                (directory / version).mkdir()
                saver.save(session, str(directory / version / "model.ckpt"))


if __name__ == "__main__":
    main()
