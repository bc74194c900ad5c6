"""Writes a checkpoint of one version as the other with TensorFlow's Saver. Run as a program.

Arguments: the checkpoint, the prefix to write, V1 or V2.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Makes the variables that the checkpoint lists, restores them and saves them again."""
    import tensorflow as tf

    source, destination, version = sys.argv[1:]
    v1 = tf.compat.v1
    reader = tf.train.load_checkpoint(source)
    dtypes = reader.get_variable_to_dtype_map()
    with tf.Graph().as_default():
        variables = [
            v1.get_variable(name, shape, dtypes[name], use_resource=False)
            for name, shape in reader.get_variable_to_shape_map().items()
        ]
        saver = v1.train.Saver(variables, write_version=getattr(v1.train.SaverDef, version))
        with v1.Session() as session:
            saver.restore(session, source)
            saver.save(session, destination, write_meta_graph=False, write_state=False)


if __name__ == "__main__":
    main()
