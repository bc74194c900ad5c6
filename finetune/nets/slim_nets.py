"""The other nets of tf_slim.nets, all called in one way.

Each builder takes (images, num_classes, is_training, dropout_keep_prob, depth_multiplier) and
returns the logits, [batch, num_classes], and the end points by name; among them the bottleneck
that the net's record names.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from exporters.runtime import load_tensorflow
from finetune.slim import load_slim


def _build(
    module: str,
    function: str,
    scope: str,
    bottleneck: str,
    taken: tuple[str, ...],
    images: Any,
    num_classes: int,
    is_training: bool,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    slim = load_slim()
    nets = importlib.import_module(f"tf_slim.nets.{module}")
    options = {name: value for name, value in options.items() if name in taken}
    with slim.arg_scope(getattr(nets, scope)(weight_decay=0.0)):
        logits, end_points = getattr(nets, function)(
            images, num_classes=num_classes, is_training=is_training, **options
        )
    # Of its own accord a net has it before dropout; what feeds the logits may be behind that.
    end_points.setdefault(bottleneck, _input_of_last_layer(logits))
    if len(logits.shape) == 4:
        tf = load_tensorflow()
        logits = tf.squeeze(logits, [1, 2], name=f"{function}/squeezed_logits")
    return logits, dict(end_points)


def _input_of_last_layer(logits: Any) -> Any:
    """What feeds the convolution that gives the logits."""
    operation = logits.op
    while operation.type != "Conv2D":
        operation = operation.inputs[0].op
    return operation.inputs[0]


_DROPOUT = ("dropout_keep_prob",)

inception_v1 = functools.partial(
    _build, "inception_v1", "inception_v1", "inception_v1_arg_scope", "PreLogits", _DROPOUT
)
inception_v2 = functools.partial(
    _build,
    "inception_v2",
    "inception_v2",
    "inception_v2_arg_scope",
    "PreLogits",
    (*_DROPOUT, "depth_multiplier"),
)


def _resnet(version: int, depth: int) -> functools.partial[tuple[Any, dict[str, Any]]]:
    module = f"resnet_v{version}"
    return functools.partial(
        _build, module, f"{module}_{depth}", "resnet_arg_scope", "global_pool", ()
    )


resnet_v1_50 = _resnet(1, 50)
resnet_v1_101 = _resnet(1, 101)
resnet_v1_152 = _resnet(1, 152)
resnet_v1_200 = _resnet(1, 200)
resnet_v2_50 = _resnet(2, 50)
resnet_v2_101 = _resnet(2, 101)
resnet_v2_152 = _resnet(2, 152)
resnet_v2_200 = _resnet(2, 200)


def _three_dense(module: str, name: str) -> functools.partial[tuple[Any, dict[str, Any]]]:
    """Nets that end in the dense layers fc6, fc7 and fc8; the last is the head."""
    scope = f"{name if module == 'alexnet' else module}_arg_scope"
    return functools.partial(_build, module, name, scope, f"{name}/fc7", _DROPOUT)


vgg_a = _three_dense("vgg", "vgg_a")
vgg_16 = _three_dense("vgg", "vgg_16")
vgg_19 = _three_dense("vgg", "vgg_19")
alexnet_v2 = _three_dense("alexnet", "alexnet_v2")
overfeat = _three_dense("overfeat", "overfeat")
