"""Different learning rates for different scopes, and gradients applied with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkpoints.errors import PlanError, listed
from checkpoints.scopes import in_scope, in_scopes
from exporters.runtime import load_tensorflow


def rate_factors(
    names: Sequence[str],
    heads: Sequence[str],
    layer_decay: float | None,
    by_scope: Mapping[str, float],
) -> dict[str, float]:
    """The factor of the learning rate of each variable.

    With a layer decay d the heads have 1, the block before them d, the one before that d * d;
    a block is a scope of two parts, as in InceptionV3/Mixed_7c. Factors of scopes come on top;
    of several scopes that hold a variable the longest counts, and one that holds none is for
    variables that train in another phase.

    Args:
      names: of the variables that the optimiser changes, in the order of the net.
      heads: scopes of the heads.
      layer_decay: from above 0 to 1, or None.
      by_scope: scope -> factor.

    Source:
      Bao et al. 2021, "BEiT", section A (layer-wise decay); Howard and Ruder 2018, section 3.2.
    """
    blocks = dict.fromkeys(_block(name) for name in names if not in_scopes(name, heads))
    depth = {block: place for place, block in enumerate(reversed(blocks), start=1)}
    factors = {}
    for name in names:
        factor = 1.0
        if layer_decay is not None and not in_scopes(name, heads):
            factor = layer_decay ** depth[_block(name)]
        holding = [scope for scope in by_scope if in_scope(name, scope)]
        if holding:
            factor *= by_scope[max(holding, key=len)]
        factors[name] = factor
    return factors


def apply_gradients(
    make_optimizer: Callable[[Any], Any],
    learning_rate: Any,
    gradients: Sequence[tuple[Any, Any]],
    factors: Mapping[str, float],
    step: Any,
) -> Any:
    """One update of all variables, each at its own rate; the step counts once.

    An optimiser has one rate, so each factor gets one of its own: scaling the gradients instead
    would change nothing for optimisers that normalise them, as Adam does.

    Args:
      make_optimizer: gives an optimiser for a learning rate.
      learning_rate: float32 scalar tensor.
      gradients: pairs of gradient and variable.
      factors: name of a variable -> factor.
      step: the global step.

    Raises:
      PlanError: the loss depends on none of a variable.
    """
    tf = load_tensorflow()
    without = [variable.op.name for gradient, variable in gradients if gradient is None]
    if without:
        raise PlanError(
            f"The loss does not depend on variables that should train:\n{listed(without)}",
            expected="trainable scopes that lead to a head that trains",
            next_step="Take them out of --trainable.",
        )
    groups: dict[float, list[tuple[Any, Any]]] = {}
    for gradient, variable in gradients:
        groups.setdefault(factors[variable.op.name], []).append((gradient, variable))
    updates = [
        make_optimizer(learning_rate * factor if factor != 1.0 else learning_rate).apply_gradients(
            pairs
        )
        for factor, pairs in groups.items()
        if factor
    ]
    with tf.control_dependencies(updates):
        return tf.compat.v1.assign_add(step, tf.constant(1, step.dtype.base_dtype)).op


def clipped(gradients: Sequence[Any], norm: float | None) -> list[Any]:
    """Gradients whose common norm is at most `norm`; as they are where it is None."""
    if norm is None:
        return list(gradients)
    found, _ = load_tensorflow().clip_by_global_norm(list(gradients), norm)
    return list(found)


def _block(name: str) -> str:
    return "/".join(name.split("/")[:2])
