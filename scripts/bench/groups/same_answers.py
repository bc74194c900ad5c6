"""Runs two frozen graphs on the same pictures. Run as a program: it loads TensorFlow.

python -m scripts.bench.groups.same_answers A.pb B.pb INPUT OUTPUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from exporters.runtime import load_tensorflow

BATCH = 2


def main() -> None:
    """Prints {"max_abs": the largest difference, "shape": of the answers} as JSON."""
    import numpy as np

    first, second, input_name, output_name = sys.argv[1:]
    answers = [_answers(Path(path), input_name, output_name) for path in (first, second)]
    difference = float(np.max(np.abs(answers[0] - answers[1])))
    sys.stdout.write(json.dumps({"max_abs": difference, "shape": answers[0].shape}) + "\n")


def _answers(path: Path, input_name: str, output_name: str) -> Any:
    """The output for pictures of uniform noise in [-1, 1], the same for each graph."""
    import numpy as np

    tf = load_tensorflow()
    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        pictures = graph.get_tensor_by_name(input_name)
        shape = [BATCH, *pictures.shape.as_list()[1:]]
        values = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        with tf.compat.v1.Session() as session:
            return session.run(graph.get_tensor_by_name(output_name), {pictures: values})


if __name__ == "__main__":
    main()
