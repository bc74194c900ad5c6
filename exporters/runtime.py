"""The one place where TensorFlow is loaded: quietly, and only when something has to run.

A graph from outside is run by GraphRunner, in a tf.Graph and a session of its own.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy.typing as npt

from checkpoints.errors import GraphError
from checkpoints.messages import GraphDef
from exporters.graph import Graph, as_graph
from exporters.inspecting.endpoints import placeholders, resolve_outputs, resolve_tensor
from exporters.metadata import read_metadata
from exporters.rewrites.prune import prune
from exporters.safety import refuse_unsafe, silence_prints

Array = npt.NDArray[Any]

_ASSIGNED_BYTES = 64 << 20
"""Of values given to variables at once."""

_HEADING = "Graph execution error:"
_NODE = re.compile(r"\{\{(?:function_)?node ([^}]*)\}\}")
_UNKNOWN_OP = re.compile(r"Op type not registered '(\w+)'")


def load_tensorflow() -> Any:
    """The tensorflow module, its start-up chatter kept from users.

    A user who set TF_CPP_MIN_LOG_LEVEL keeps that setting.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" in sys.modules:
        return sys.modules["tensorflow"]
    with hold_stderr_back(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tensorflow
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    return tensorflow


@contextmanager
def hold_stderr_back() -> Iterator[None]:
    """Keeps what native code writes to stderr, and shows it only where the block fails.

    No environment variable silences what TensorFlow logs before its logger is set up.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def session_config(threads: int | None = None) -> Any:
    """The ConfigProto of every session: devices chosen softly, GPU memory taken as needed.

    Args:
      threads: how many threads one session may use; None leaves it to TensorFlow.
    """
    config = load_tensorflow().compat.v1.ConfigProto(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    if threads is not None:
        config.intra_op_parallelism_threads = threads
        config.inter_op_parallelism_threads = threads
    return config


class GraphRunner:
    """Runs a graph on arrays or on a data set. A context manager; closing frees the session.

    Attributes:
      inputs: names of the tensors that take what `run` is given, in that order.
      outputs: names of the tensors that come back, in that order.
      metadata: what the graph says of itself, or None.
      batch_size: the length of the first input's first dimension; None where any is taken.
    """

    def __init__(
        self,
        graph: Graph | GraphDef | str | Path,
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        *,
        trust: bool = False,
        threads: int | None = None,
        config: Any = None,
    ) -> None:
        """Prepares a graph; nothing is run yet.

        Args:
          graph: a frozen graph: as read, as a GraphDef, or a file that holds one.
          inputs: tensors to feed; left out, the graph's placeholders.
          outputs: tensors to fetch; left out, those of the graph's metadata, else a guess.
          trust: whether ops that reach files, the network or Python are run.
          threads: how many threads a session may use.
          config: a ConfigProto in place of session_config(threads).

        Raises:
          GraphError: the graph cannot be read or has no such tensor, or does more than compute.
        """
        whole = as_graph(graph)
        self.metadata = read_metadata(whole)
        outputs_found = resolve_outputs(whole, outputs, self.metadata)
        needed = prune(whole, outputs_found).graph
        refuse_unsafe(needed.graph_def, trust, whole.label)
        self.outputs = tuple(map(str, outputs_found))
        inputs_found = (
            [resolve_tensor(needed, name, role="input") for name in inputs]
            if inputs
            else placeholders(needed, self.metadata)
        )
        self.inputs = tuple(map(str, inputs_found))
        shape = needed.shape(inputs_found[0]) if inputs_found else None
        self.batch_size = shape[0] if shape else None
        self._label = whole.label
        self._graph_def = _for_tensorflow(needed.graph_def)
        if not trust:
            silence_prints(self._graph_def)
        self._config = session_config(threads) if config is None else config
        self._session: Any = None

    def run(self, *arrays: Array, feeds: Mapping[str, Array] | None = None) -> list[Array]:
        """The outputs for one batch.

        Args:
          arrays: a value for each input, in the order of `inputs`; those at the end may be
            left out where the graph has defaults for them.
          feeds: values of further tensors, by name.

        Raises:
          GraphError: a shape or dtype does not fit, or an op fails.
        """
        if len(arrays) > len(self.inputs):
            raise GraphError(
                f"{self._label} takes fewer inputs.",
                expected=f"at most {len(self.inputs)}: {', '.join(self.inputs)}",
                received=len(arrays),
            )
        values = {**dict(zip(self.inputs, arrays, strict=False)), **(feeds or {})}
        if self._session is None:
            self._session = self._new_session()
        with self._explained():
            fetched: list[Array] = self._session.run(list(self.outputs), values)
        return fetched

    def assign(self, values: Mapping[str, Array]) -> None:
        """Gives variables of a graph that is not frozen their values, for `run`.

        Args:
          values: variable's node -> value.

        Raises:
          GraphError: a value does not fit its variable.
        """
        tf = load_tensorflow()
        if self._session is None:
            self._session = self._new_session()
        assignments = []
        with self._session.graph.as_default(), self._explained():
            for name, value in values.items():
                variable = self._session.graph.get_tensor_by_name(f"{name}:0")
                holder = tf.compat.v1.placeholder(value.dtype, value.shape)
                if variable.dtype == tf.resource:
                    assign = tf.raw_ops.AssignVariableOp(resource=variable, value=holder)
                else:
                    assign = tf.raw_ops.Assign(ref=variable, value=holder).op
                assignments.append((assign, holder, value))
            # A session that runs between two changes of its graph takes in the whole of it again,
            # and each new set of operations costs it a while: many at a time, and no copy of all.
            while assignments:
                chosen, feeds, size = [], {}, 0
                while assignments and size < _ASSIGNED_BYTES:
                    assign, holder, value = assignments.pop()
                    chosen.append(assign)
                    feeds[holder] = value
                    size += value.nbytes
                self._session.run(chosen, feeds)

    def run_dataset(
        self, make_dataset: Callable[[], Any]
    ) -> Iterator[tuple[list[Array], tuple[Array, ...]]]:
        """The outputs for each batch of a data set, which is read by TensorFlow's own threads.

        Args:
          make_dataset: called inside a tf.Graph; returns a tf.data.Dataset whose elements are
            the first input, or a tuple that begins with it.

        Yields:
          The outputs, and the rest of the element (labels, ...).

        Raises:
          GraphError: a shape or dtype does not fit, or an op fails.
        """
        tf = load_tensorflow()
        with tf.Graph().as_default() as own_graph:
            iterator = tf.compat.v1.data.make_initializable_iterator(make_dataset())
            element = iterator.get_next()
            features, *rest = element if isinstance(element, tuple) else (element,)
            with self._explained():
                tensors = tf.import_graph_def(
                    self._graph_def, {self.inputs[0]: features}, list(self.outputs), name="model"
                )
        # Whoever takes the batches may stop at any of them: nothing is left entered meanwhile.
        session = tf.compat.v1.Session(graph=own_graph, config=self._config)
        try:
            with self._explained():
                session.run(iterator.initializer)
            while True:
                try:
                    with self._explained():
                        outputs, others = session.run((tensors, tuple(rest)))
                except tf.errors.OutOfRangeError:
                    return
                yield outputs, others
        finally:
            session.close()

    def close(self) -> None:
        """Frees the session. The runner can be used again."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def __enter__(self) -> GraphRunner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _new_session(self) -> Any:
        tf = load_tensorflow()
        own_graph = tf.Graph()
        with own_graph.as_default(), self._explained():
            tf.import_graph_def(self._graph_def, name="")
        return tf.compat.v1.Session(graph=own_graph, config=self._config)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turns what TensorFlow raises over the graph or a fed value into a GraphError."""
        errors = load_tensorflow().errors
        try:
            yield
        except errors.OutOfRangeError:
            raise
        except (errors.OpError, ValueError, TypeError, KeyError) as error:
            message = getattr(error, "message", None) or str(error)
            raise GraphError(
                f"{self._label} cannot be run as it was asked to.",
                received=_reason(message, self._graph_def),
            ) from error


def reason_of(message: str) -> str:
    """The line of a message of TensorFlow's that says what is wrong.

    Of a graph that Python built it tells first where, in many lines, and then the reason.
    """
    lines = [line.strip() for line in message.splitlines()]
    nodes = [place for place, line in enumerate(lines) if line.startswith("Node: ")]
    for line in lines[nodes[-1] + 1 :] if nodes else lines:
        if line and not line.startswith((_HEADING, "From /job:")):
            return line
    return message.strip()


def _reason(message: str, graph_def: Any) -> str:
    """The one line of TensorFlow's message that says what is wrong, and the node."""
    lines = [line.strip() for line in message.splitlines()]
    node = _NODE.search(message)
    if node is not None:
        place = next(index for index, line in enumerate(lines) if _NODE.search(line))
        # The node stands in a line of its own, or at the end of the reason.
        told = [_NODE.split(line)[0].rstrip("[ ") for line in lines[: place + 1]]
        reason = next((line for line in reversed(told) if line), "it fails")
        return f"{reason} (node {node[1]})"
    reason = reason_of(message)
    unknown = _UNKNOWN_OP.search(message)
    names = [] if unknown is None else [n.name for n in graph_def.node if n.op == unknown[1]]
    return f"{reason} (node {names[0]})" if names else reason


def _for_tensorflow(graph_def: GraphDef) -> Any:
    """The same message in TensorFlow's own class."""
    message_class = load_tensorflow().compat.v1.GraphDef
    return message_class.FromString(graph_def.SerializeToString())
