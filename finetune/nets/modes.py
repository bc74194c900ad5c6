"""Modes of layers by scope: a frozen scope stays in inference mode while others train.

TF-Slim's builders take one `is_training` for the whole net. A frozen trunk built with it would
still move its batch-norm averages and drop activations, so the mode is decided layer by layer
here, by the variable scope the layer stands in.

What dropout drops is a function of the seed, the layer's scope and the global step, so that a run
that goes on from a checkpoint drops what it would have dropped without stopping.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from checkpoints.scopes import in_scopes
from exporters.runtime import load_tensorflow
from finetune.slim import load_slim, replaced_layers

MODAL_LAYERS = {"batch_norm": "BatchNorm", "dropout": "Dropout"}
"""The layers of tf-slim that differ between training and inference; their default scopes."""


@contextmanager
def layer_modes(
    training_scopes: Sequence[str] | None,
    batch_norm_scopes: Sequence[str] | None = None,
    batch_norm_decay: float | None = None,
    step: Any = None,
) -> Iterator[None]:
    """Inside the block, layers built outside the scopes are in inference mode whatever is asked.

    Args:
      training_scopes: variable scopes, matched by whole path parts; None: all.
      batch_norm_scopes: the same for batch norms, in which they have to stand too; None: all.
      batch_norm_decay: share of the old moving average that an update keeps; None: the net's own.
      step: the global step, an int64 scalar, for dropout that depends on nothing else but the
        graph's seed; None: the layer's own random numbers.
    """

    def replacement(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        layer = _by_step(original, step) if _is_stepped(name, step) else original
        norms = batch_norm_scopes if name == "batch_norm" else None
        scopes = [each for each in (training_scopes, norms) if each is not None]
        return _with_modes(name, layer, scopes, batch_norm_decay)

    with replaced_layers(MODAL_LAYERS, replacement):
        yield


def _with_modes(
    name: str,
    layer: Callable[..., Any],
    scopes: Sequence[Sequence[str]],
    batch_norm_decay: float | None,
) -> Callable[..., Any]:
    tf = load_tensorflow()
    parameters = list(inspect.signature(layer).parameters)

    def with_modes(*arguments: Any, **named: Any) -> Any:
        named.update(zip(parameters, arguments, strict=False))
        scope = named.get("scope") or MODAL_LAYERS[name]
        path = f"{tf.compat.v1.get_variable_scope().name}/{getattr(scope, 'name', scope)}"
        if not all(in_scopes(path, each) for each in scopes):
            named["is_training"] = False
        if name == "batch_norm" and batch_norm_decay is not None:
            named["decay"] = batch_norm_decay
        return layer(**named)

    return with_modes


def _is_stepped(name: str, step: Any) -> bool:
    return name == "dropout" and step is not None


def _by_step(layer: Callable[..., Any], step: Any) -> Callable[..., Any]:
    """slim.dropout whose random numbers are a function of seed, scope and step."""
    tf = load_tensorflow()
    v1 = tf.compat.v1

    def dropout(
        inputs: Any,
        keep_prob: float = 0.5,
        noise_shape: Any = None,
        is_training: Any = True,
        outputs_collections: Any = None,
        scope: Any = None,
        seed: int | None = None,
    ) -> Any:
        if is_training is not True or noise_shape is not None or outputs_collections is not None:
            # By name: an arg_scope around the layer gives its arguments by name too.
            return layer(
                inputs,
                keep_prob=keep_prob,
                noise_shape=noise_shape,
                is_training=is_training,
                outputs_collections=outputs_collections,
                scope=scope,
                seed=seed,
            )
        with v1.variable_scope(scope, "Dropout", [inputs]) as entered:
            graph_seed = tf.compat.v1.get_default_graph().seed or 0
            place = crc32(f"{graph_seed}:{seed}:{entered.name}".encode())
            return tf.nn.experimental.stateless_dropout(
                inputs,
                rate=1.0 - keep_prob,
                seed=tf.stack([tf.constant(place, tf.int64), tf.cast(step, tf.int64)]),
                rng_alg="philox",
            )

    # Under this key tf-slim keeps the arguments of an arg_scope.
    dropout._key_op = layer._key_op  # type: ignore[attr-defined]
    decorated: Callable[..., Any] = load_slim().add_arg_scope(dropout)
    return decorated
