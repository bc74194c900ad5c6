"""Graphs to export: built from messages alone, and with TensorFlow as the independent side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkpoints.dtypes import of_numpy
from checkpoints.messages import GraphDef
from exporters.graph import Graph


class GraphBuilder:
    """Writes a GraphDef node by node, without TensorFlow.

    Attributes:
      graph_def: what was added so far.
      values: the variables' values by name.
    """

    def __init__(self) -> None:
        self.graph_def = GraphDef()
        self.graph_def.versions.producer = 27
        self.values: dict[str, np.ndarray] = {}

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        node = self.graph_def.node.add(name=name, op=op, input=inputs)
        for key, value in attributes.items():
            set_attribute(node.attr[key], value)
        return name

    def const(self, name: str, value: Any) -> str:
        array = np.asarray(value)
        return self.add("Const", name, dtype=array.dtype, value=array)

    def variable(self, name: str, value: Any, resource: bool = False) -> str:
        """A variable and its read op; returns the name that is read."""
        array = np.asarray(value)
        self.values[name] = array
        if resource:
            self.add("VarHandleOp", name, dtype=array.dtype, shape=array.shape, shared_name=name)
            return self.add("ReadVariableOp", f"{name}/Read", name, dtype=array.dtype)
        self.add("VariableV2", name, dtype=array.dtype, shape=array.shape)
        return self.add("Identity", f"{name}/read", name, T=array.dtype)

    def dense_net(self, classes: int = 4, resource: bool = False) -> GraphBuilder:
        """Placeholder x [?, 4] -> fc/weights, fc/biases -> logits -> softmax `probs`."""
        generator = np.random.default_rng(0)
        self.add("Placeholder", "x", dtype=np.dtype("float32"), shape=(None, 4))
        weights = generator.normal(size=(4, classes)).astype(np.float32)
        biases = generator.normal(size=(classes,)).astype(np.float32)
        read_weights = self.variable("fc/weights", weights, resource)
        read_biases = self.variable("fc/biases", biases, resource)
        self.add("MatMul", "matmul", "x", read_weights, T=np.dtype("float32"))
        self.add("BiasAdd", "logits", "matmul", read_biases, T=np.dtype("float32"))
        self.add("Softmax", "probs", "logits", T=np.dtype("float32"))
        return self

    @property
    def graph(self) -> Graph:
        copy = GraphDef()
        copy.CopyFrom(self.graph_def)
        return Graph(copy)


def set_attribute(attribute: Any, value: Any) -> None:
    """Sets an AttrValue from a Python value."""
    if isinstance(value, np.dtype):
        attribute.type = of_numpy(value).number
    elif isinstance(value, tuple):
        attribute.shape.SetInParent()
        for size in value:
            attribute.shape.dim.add(size=-1 if size is None else size)
    elif isinstance(value, np.ndarray):
        attribute.tensor.dtype = of_numpy(value.dtype).number
        for size in value.shape:
            attribute.tensor.tensor_shape.dim.add(size=size)
        attribute.tensor.tensor_shape.SetInParent()
        if value.dtype.kind in "SUO":
            attribute.tensor.string_val.extend(
                text if isinstance(text, bytes) else str(text).encode() for text in value.flat
            )
        else:
            attribute.tensor.tensor_content = value.tobytes()
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, list):
        attribute.list.s.extend(value)
    else:
        attribute.s = value if isinstance(value, bytes) else str(value).encode()


@pytest.fixture
def builder() -> GraphBuilder:
    return GraphBuilder()


@pytest.fixture
def dense_net() -> GraphBuilder:
    return GraphBuilder().dense_net()


@dataclass
class Saved:
    """A graph that TensorFlow saved.

    Attributes:
      prefix: of the checkpoint; PREFIX.meta lies beside it.
      feeds: inputs by tensor name.
      answers: what TensorFlow's session gave for them, by tensor name.
    """

    prefix: Path
    feeds: dict[str, np.ndarray]
    answers: dict[str, np.ndarray] = field(default_factory=dict)


@pytest.fixture
def save_graph(tmp_path: Path) -> Callable[..., Saved]:
    """Builds a graph with TensorFlow, fills its variables with numbers, saves and runs it."""

    def save(
        build: Callable[[Any], None],
        feeds: dict[str, np.ndarray],
        fetches: list[str],
        *,
        resource: bool = False,
        name: str = "model.ckpt",
        saver: Callable[[Any], Any] | None = None,
        version: str = "V2",
    ) -> Saved:
        from exporters.runtime import load_tensorflow

        tf = load_tensorflow()
        v1 = tf.compat.v1
        prefix = tmp_path / name
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with tf.Graph().as_default():
            with v1.variable_scope(v1.get_variable_scope(), use_resource=resource):
                build(tf)
            generator = np.random.default_rng(1)
            made = (
                saver(v1)
                if saver is not None
                else v1.train.Saver(write_version=getattr(v1.train.SaverDef, version))
            )
            with v1.Session() as session:
                # In order: an average starts from the variable it is of.
                for variable in v1.global_variables():
                    session.run(variable.initializer)
                for variable in v1.global_variables():
                    if variable.dtype.base_dtype.is_floating:
                        positive = variable.op.name.endswith("moving_variance")
                        value = generator.uniform(0.5 if positive else -1, 1, variable.shape)
                        variable.load(value.astype(variable.dtype.base_dtype.name), session)
                answers = dict(zip(fetches, session.run(fetches, feeds), strict=True))
                made.save(session, str(prefix))
        return Saved(prefix, feeds, answers)

    return save


@pytest.fixture
def run_frozen() -> Callable[..., dict[str, np.ndarray]]:
    """Imports a .pb with TensorFlow itself and runs it."""

    def run(path: Path, feeds: dict[str, np.ndarray], fetches: list[str]) -> dict[str, Any]:
        from exporters.runtime import load_tensorflow

        tf = load_tensorflow()
        graph_def = tf.compat.v1.GraphDef.FromString(Path(path).read_bytes())
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
            with tf.compat.v1.Session() as session:
                return dict(zip(fetches, session.run(fetches, feeds), strict=True))

    return run
