"""tf-slim 1.1 on today's TensorFlow: the one module that makes its layers work, and nothing else.

Two things have moved under tf-slim since it was last released:

- The layers it builds on are imported as `tf_keras.legacy_tf_layers`; the package now keeps them
  under `tf_keras.src.legacy_tf_layers`. They get their old name in `sys.modules`.
- Some functions and classes left the internal TensorFlow modules that it takes them from
  (`ops.Tensor`, `control_flow_ops.cond`, ...). tf-slim's own modules get namespaces that have
  them; TensorFlow's modules stay as they are.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from exporters.runtime import load_tensorflow

LEGACY_LAYERS = ("base", "core", "pooling", "normalization", "convolutional")


class _Namespace(types.ModuleType):
    """A module with names it has lost; every other name is looked up in the module itself."""

    def __init__(self, module: types.ModuleType, lost: dict[str, Any]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["_module"] = module
        self.__dict__.update(lost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)


@functools.cache
def load_slim() -> Any:
    """The tf_slim module, with `tf_slim.nets` loaded, ready to build layers.

    Layers are built inside a tf.Graph, as ever: `with tf.Graph().as_default(): ...`.
    """
    tf = load_tensorflow()
    _alias_legacy_layers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slim = importlib.import_module("tf_slim")
        for module in pkgutil.walk_packages(slim.__path__, "tf_slim."):
            if not module.name.endswith("_test"):
                importlib.import_module(module.name)
    _give_lost_names(tf)
    return slim


def quietly(build: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that builds layers, so that tf-slim's deprecation warnings stay inside."""

    @functools.wraps(build)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"tf_slim|tf_keras|tensorflow")
            return build(*arguments, **named)

    return wrapped


@contextmanager
def variables_by_identity() -> Iterator[None]:
    """Inside the block, variables made in the current tf.Graph are told apart as plain objects.

    So TensorFlow tells a graph's variables apart too, but it finds out each time whether eager
    execution is on. With every variable that a layer makes, tf_keras puts all that there are into
    a set: of a net with hundreds of them, that is up to half the time of building it.
    """
    tf = load_tensorflow()
    if tf.compat.v1.executing_eagerly_outside_functions():
        yield
        return

    def make(next_creator: Callable[..., Any], **named: Any) -> Any:
        variable = next_creator(**named)
        variable.__class__ = _by_identity(variable.__class__)
        return variable

    with tf.variable_creator_scope(make):
        yield


@functools.cache
def _by_identity(kind: Any) -> Any:
    """The same class of variables, compared and hashed as plain objects are."""
    compared = {name: getattr(object, name) for name in ("__eq__", "__ne__", "__hash__")}
    return type(kind)(kind.__name__, (kind,), compared)


@contextmanager
def replaced_layers(
    names: Iterable[str], replace: Callable[[str, Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """Inside the block, layers of tf-slim are others, wherever builders look them up.

    Args:
      names: of the layers, as in "conv2d".
      replace: called with the name and the layer of each; gives what stands in its place.
    """
    slim = load_slim()
    from tf_slim.layers import layers

    holders = (slim, slim.layers, layers)
    originals = {name: getattr(layers, name) for name in names}
    try:
        for name, original in originals.items():
            replacement: Any = replace(name, original)
            # tf-slim keeps the arguments of an arg_scope under this key of the layer.
            replacement._key_op = original._key_op
            for holder in holders:
                setattr(holder, name, replacement)
        yield
    finally:
        for name, original in originals.items():
            for holder in holders:
                setattr(holder, name, original)


def _alias_legacy_layers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = importlib.import_module("tf_keras.src.legacy_tf_layers")
        sys.modules["tf_keras.legacy_tf_layers"] = package
        for name in LEGACY_LAYERS:
            sys.modules[f"tf_keras.legacy_tf_layers.{name}"] = importlib.import_module(
                f"tf_keras.src.legacy_tf_layers.{name}"
            )


def _give_lost_names(tf: Any) -> None:
    v1 = tf.compat.v1
    lost: dict[str, dict[str, Any]] = {
        "tensorflow.python.framework.ops": {
            "Tensor": tf.Tensor,
            "IndexedSlices": tf.IndexedSlices,
        },
        "tensorflow.python.ops.array_ops": {"stack": tf.stack, "unstack": tf.unstack},
        "tensorflow.python.ops.control_flow_ops": {
            "Assert": v1.Assert,
            "case": v1.case,
            "cond": v1.cond,
            "while_loop": v1.while_loop,
        },
        "tensorflow.python.ops.variable_scope": {"variable": v1.Variable},
    }
    namespaces = {
        id(sys.modules[name]): _Namespace(sys.modules[name], names) for name, names in lost.items()
    }
    for module_name, module in list(sys.modules.items()):
        if module_name == "tf_slim" or module_name.startswith("tf_slim."):
            for name, value in list(vars(module).items()):
                if id(value) in namespaces:
                    setattr(module, name, namespaces[id(value)])
