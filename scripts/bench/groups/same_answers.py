"""Runs two frozen graphs on the same pictures. Run as a program: it loads TensorFlow.

python -m scripts.bench.groups.same_answers A.pb B.pb INPUT OUTPUT
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exporters.runtime import load_tensorflow

BATCH = 4


def main() -> None:
    """Prints {"max_abs": the largest difference, "shape": of the answers} as JSON."""
    import numpy as np

    first, second, input_name, output_name = sys.argv[1:]
    answers = [_answers(Path(path), input_name, output_name) for path in (first, second)]
    difference = float(np.max(np.abs(answers[0] - answers[1])))
    sys.stdout.write(json.dumps({"max_abs": difference, "shape": answers[0].shape}) + "\n")


def run_graph(path: str, input_name: str, output_name: str) -> Callable[[], list[float]]:
    """The step: one batch through the graph; gives the largest answer for each picture."""
    run = _runner(Path(path), input_name, output_name)
    return lambda: [float(answer) for answer in run().max(axis=-1)]


def _answers(path: Path, input_name: str, output_name: str) -> Any:
    return _runner(path, input_name, output_name)()


def _runner(path: Path, input_name: str, output_name: str) -> Callable[[], Any]:
    """Gives the output for pictures of uniform noise in [-1, 1], the same for each graph."""
    import numpy as np

    tf = load_tensorflow()
    graph_def = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    pictures = graph.get_tensor_by_name(input_name)
    output = graph.get_tensor_by_name(output_name)
    shape = [BATCH, *pictures.shape.as_list()[1:]]
    values = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    session = tf.compat.v1.Session(graph=graph)
    return lambda: session.run(output, {pictures: values})


if __name__ == "__main__":
    main()
