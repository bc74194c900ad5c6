"""The same pictures through the plain runtimes, as the first lines of their own manuals do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from exporters.runtime import load_tensorflow
from scripts.bench.groups.serve_pictures import in_batches


def session(
    path: str, input_name: str, output: str, size: str, batch: str
) -> Callable[[], list[list[float]]]:
    """The step: a tf.compat.v1.Session on a graph as freeze_graph leaves it."""
    v1 = load_tensorflow().compat.v1
    graph_def = v1.GraphDef()
    graph_def.ParseFromString(Path(path).read_bytes())
    with v1.Graph().as_default() as graph:
        v1.import_graph_def(graph_def, name="")
    running = v1.Session(graph=graph)
    return in_batches(lambda pictures: running.run(output, {input_name: pictures}), size, batch)


def interpreter(
    path: str, input_name: str, output: str, size: str, batch: str
) -> Callable[[], list[list[float]]]:
    """The step: the interpreter on the file that TensorFlow's converter makes."""
    from ai_edge_litert.interpreter import Interpreter

    model = Interpreter(model_path=path)
    place = model.get_input_details()[0]["index"]
    model.resize_tensor_input(place, [int(batch), int(size), int(size), 3])
    model.allocate_tensors()

    def serve(pictures: np.ndarray) -> np.ndarray:
        model.set_tensor(place, pictures)
        model.invoke()
        answers: np.ndarray = model.get_tensor(model.get_output_details()[0]["index"])
        return answers

    return in_batches(serve, size, batch)


def onnxruntime(
    path: str, input_name: str, output: str, size: str, batch: str
) -> Callable[[], list[list[float]]]:
    """The step: ONNX Runtime with its defaults on the file that tf2onnx makes."""
    from onnxruntime import InferenceSession

    model = InferenceSession(path, providers=["CPUExecutionProvider"])
    return in_batches(lambda pictures: model.run([output], {input_name: pictures})[0], size, batch)
