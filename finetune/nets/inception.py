"""Inception-v3 from tf_slim.nets, at any width.

Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", 2015.
"""

from __future__ import annotations

from typing import Any

from finetune.slim import load_slim


def inception_v3(
    images: Any,
    num_classes: int,
    is_training: bool,
    *,
    dropout_keep_prob: float = 0.8,
    depth_multiplier: float = 1.0,
) -> tuple[Any, dict[str, Any]]:
    """Inception-v3 with its auxiliary head.

    Args:
      images: float32 [batch, size, size, 3] in [-1, 1]; 299 is the size of the paper. The
        auxiliary head shrinks with smaller pictures, and with it a variable's name.
      num_classes: length of the logits.
      is_training: training mode for batch norm and dropout.
      dropout_keep_prob: the share of activations kept before the logits.
      depth_multiplier: factor on the number of channels of every layer.

    Returns:
      Logits [batch, num_classes] and the end points by name.
    """
    slim = load_slim()
    from tf_slim.nets import inception

    with slim.arg_scope(inception.inception_v3_arg_scope(weight_decay=0.0)):
        logits, end_points = inception.inception_v3(
            images,
            num_classes=num_classes,
            is_training=is_training,
            dropout_keep_prob=dropout_keep_prob,
            depth_multiplier=depth_multiplier,
        )
    return logits, end_points
