"""Modes of layers by scope: a frozen scope stays in inference mode while others train.

TF-Slim's builders take one `is_training` for the whole net. A frozen trunk built with it would
still move its batch-norm averages and drop activations, so the mode is decided layer by layer
here, by the variable scope the layer stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from checkpoints.scopes import in_scopes
from exporters.runtime import load_tensorflow
from finetune.slim import load_slim

MODAL_LAYERS = {"batch_norm": "BatchNorm", "dropout": "Dropout"}
"""The layers of tf-slim that differ between training and inference; their default scopes."""


@contextmanager
def layer_modes(
    training_scopes: Sequence[str] | None, batch_norm_decay: float | None = None
) -> Iterator[None]:
    """Inside the block, layers built outside the scopes are in inference mode whatever is asked.

    Args:
      training_scopes: variable scopes, matched by whole path parts; None: all.
      batch_norm_decay: share of the old moving average that an update keeps; None: the net's own.
    """
    slim = load_slim()
    from tf_slim.layers import layers

    holders = (slim, slim.layers, layers)
    originals = {name: getattr(layers, name) for name in MODAL_LAYERS}
    try:
        for name, original in originals.items():
            replacement = _with_modes(name, original, training_scopes, batch_norm_decay)
            for holder in holders:
                setattr(holder, name, replacement)
        yield
    finally:
        for name, original in originals.items():
            for holder in holders:
                setattr(holder, name, original)


def _with_modes(
    name: str,
    layer: Callable[..., Any],
    training_scopes: Sequence[str] | None,
    batch_norm_decay: float | None,
) -> Callable[..., Any]:
    tf = load_tensorflow()

    def with_modes(*arguments: Any, **named: Any) -> Any:
        scope = named.get("scope") or MODAL_LAYERS[name]
        path = f"{tf.compat.v1.get_variable_scope().name}/{getattr(scope, 'name', scope)}"
        if training_scopes is not None and not in_scopes(path, training_scopes):
            named["is_training"] = False
        if name == "batch_norm" and batch_norm_decay is not None:
            named["decay"] = batch_norm_decay
        return layer(*arguments, **named)

    # tf-slim keeps the arguments of an arg_scope under this key of the layer.
    with_modes._key_op = layer._key_op  # type: ignore[attr-defined]
    return with_modes
