"""Lists a checkpoint's variables with TensorFlow. Run as a program with the checkpoint's path."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Prints {name: [dtype, shape]} as JSON."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(sys.argv[1])
    dtypes = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    found = {name: [dtypes[name].name, shape] for name, shape in shapes.items()}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
