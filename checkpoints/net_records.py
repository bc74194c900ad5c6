"""Records of the nets slimtune builds. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Paper:
    """Where an architecture comes from."""

    title: str
    authors: str
    year: int


@dataclass(frozen=True)
class Net:
    """One architecture.

    Attributes:
      name: what `--net` takes.
      builder: "module:function", loaded on use; called as TF-Slim's builders are, it returns
        (logits, end_points).
      scope: the variable scope everything stands in.
      image_size: height and width of the pictures it was designed for, in pixels.
      preprocessing: how pictures become its input.
      main_head: scope of the layer that gives the logits.
      bottleneck: endpoint that feeds the main head: pooled, before the logits layer,
        [batch, 1, 1, channels], of dense nets [batch, channels]. TF-Slim's own end_points lack it
        for Inception-v1 and -v2 and for the ResNets; there the builder adds it.
      logits: endpoint of the logits, [batch, classes] or [batch, 1, 1, classes].
      paper: where it comes from.
      auxiliary_heads: scopes of classifiers beside the main one.
      depth_multiplier: factor on the number of channels of every layer.
      has_dropout: whether its builder takes dropout_keep_prob; where it does not, dropout that is
        asked for is put before the logits.
      dropouts: dropout that stands outside the scope of the layer it feeds, with that layer's
        scope: it drops where the layer trains.
    """

    name: str
    builder: str
    scope: str
    image_size: int
    preprocessing: Literal["inception", "vgg", "grey"]
    main_head: str
    bottleneck: str
    logits: str
    paper: Paper
    auxiliary_heads: tuple[str, ...] = ()
    depth_multiplier: float = 1.0
    has_dropout: bool = True
    dropouts: tuple[tuple[str, str], ...] = ()

    @property
    def top_scopes(self) -> tuple[str, ...]:
        """The outermost scopes that all of its variables stand in."""
        return (self.scope,)

    @property
    def head_scopes(self) -> tuple[str, ...]:
        """The main head, then the auxiliary ones."""
        return (self.main_head, *self.auxiliary_heads)


_GOING_DEEPER = Paper("Going Deeper with Convolutions", "Szegedy et al.", 2014)
_BATCH_NORM = Paper(
    "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
    "Ioffe and Szegedy",
    2015,
)
_RETHINKING = Paper(
    "Rethinking the Inception Architecture for Computer Vision", "Szegedy et al.", 2015
)
_IMPACT = Paper(
    "Inception-v4, Inception-ResNet and the Impact of Residual Connections on Learning",
    "Szegedy et al.",
    2016,
)
_WEIRD_TRICK = Paper(
    "One weird trick for parallelizing convolutional neural networks", "Krizhevsky", 2014
)
_OVERFEAT = Paper(
    "OverFeat: Integrated Recognition, Localization and Detection using Convolutional Networks",
    "Sermanet et al.",
    2013,
)
_RESIDUAL = Paper("Deep Residual Learning for Image Recognition", "He et al.", 2015)
_IDENTITY = Paper("Identity Mappings in Deep Residual Networks", "He et al.", 2016)
_VERY_DEEP = Paper(
    "Very Deep Convolutional Networks for Large-Scale Image Recognition",
    "Simonyan and Zisserman",
    2014,
)
_MOBILE = Paper(
    "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications",
    "Howard et al.",
    2017,
)
_DOCUMENTS = Paper("Gradient-Based Learning Applied to Document Recognition", "LeCun et al.", 1998)
_MOBILE_2 = Paper("MobileNetV2: Inverted Residuals and Linear Bottlenecks", "Sandler et al.", 2018)


def _resnet(name: str, paper: Paper) -> Net:
    return Net(
        name=name,
        builder=f"finetune.nets.slim_nets:{name}",
        scope=name,
        image_size=224,
        preprocessing="vgg",
        main_head=f"{name}/logits",
        bottleneck="global_pool",
        logits=f"{name}/logits",
        paper=paper,
        has_dropout=False,
    )


def _three_dense(name: str, paper: Paper, image_size: int = 224) -> Net:
    """A net of the time before batch norm: it ends in the dense layers fc6, fc7 and fc8."""
    return Net(
        name=name,
        builder=f"finetune.nets.slim_nets:{name}",
        scope=name,
        image_size=image_size,
        preprocessing="vgg",
        main_head=f"{name}/fc8",
        bottleneck=f"{name}/fc7",
        logits=f"{name}/fc8",
        paper=paper,
        dropouts=((f"{name}/dropout6", f"{name}/fc7"), (f"{name}/dropout7", f"{name}/fc8")),
    )


def _impact(name: str, scope: str) -> Net:
    return Net(
        name=name,
        builder=f"finetune.nets.{name}:{name}",
        scope=scope,
        image_size=299,
        preprocessing="inception",
        main_head=f"{scope}/Logits",
        auxiliary_heads=(f"{scope}/AuxLogits",),
        bottleneck="global_pool",
        logits="Logits",
        paper=_IMPACT,
    )


def _mnist(name: str, scope: str, head: str, bottleneck: str, **more: Any) -> Net:
    return Net(
        name=f"mnist_{name}",
        builder=f"finetune.nets.mnist:mnist_{name}",
        scope=scope,
        image_size=28,
        preprocessing="grey",
        main_head=f"{scope}/{head}",
        bottleneck=bottleneck,
        logits="Logits",
        paper=_DOCUMENTS,
        **more,
    )


MOBILENETS: tuple[tuple[Literal[1, 2], float, tuple[int, ...]], ...] = (
    *((1, multiplier, (224, 192, 160, 128)) for multiplier in (1.0, 0.75, 0.5, 0.25)),
    (2, 1.0, (224, 192, 160, 128, 96)),
    *((2, multiplier, (224,)) for multiplier in (1.4, 1.3)),
    *((2, multiplier, (224, 192, 160, 128, 96)) for multiplier in (0.75, 0.5, 0.35)),
)
"""Version, depth multiplier, and the picture sizes that weights were trained for."""


def mobilenet_name(version: int, multiplier: float) -> str:
    """As TF-Slim calls it: mobilenet_v1, mobilenet_v1_075."""
    return f"mobilenet_v{version}" + ("" if multiplier == 1 else f"_{100 * multiplier:03.0f}")


def _mobilenet(version: Literal[1, 2], multiplier: float) -> Net:
    return Net(
        name=mobilenet_name(version, multiplier),
        builder=f"finetune.nets.mobilenet_v{version}:mobilenet_v{version}",
        scope=f"MobilenetV{version}",
        image_size=224,
        preprocessing="inception",
        main_head=f"MobilenetV{version}/Logits",
        bottleneck="AvgPool_1a" if version == 1 else "global_pool",
        logits="Logits",
        paper=_MOBILE if version == 1 else _MOBILE_2,
        depth_multiplier=multiplier,
    )


NETS: dict[str, Net] = {
    net.name: net
    for net in (
        Net(
            name="inception_v1",
            builder="finetune.nets.slim_nets:inception_v1",
            scope="InceptionV1",
            image_size=224,
            preprocessing="inception",
            main_head="InceptionV1/Logits",
            bottleneck="PreLogits",
            logits="Logits",
            paper=_GOING_DEEPER,
        ),
        Net(
            name="inception_v2",
            builder="finetune.nets.slim_nets:inception_v2",
            scope="InceptionV2",
            image_size=224,
            preprocessing="inception",
            main_head="InceptionV2/Logits",
            bottleneck="PreLogits",
            logits="Logits",
            paper=_BATCH_NORM,
        ),
        Net(
            name="inception_v3",
            builder="finetune.nets.inception:inception_v3",
            scope="InceptionV3",
            image_size=299,
            preprocessing="inception",
            main_head="InceptionV3/Logits",
            auxiliary_heads=("InceptionV3/AuxLogits",),
            bottleneck="PreLogits",
            logits="Logits",
            paper=_RETHINKING,
        ),
        Net(
            name="inception_v3_sample",
            builder="finetune.nets.inception:inception_v3",
            scope="InceptionV3",
            image_size=149,
            preprocessing="inception",
            main_head="InceptionV3/Logits",
            auxiliary_heads=("InceptionV3/AuxLogits",),
            bottleneck="PreLogits",
            logits="Logits",
            paper=_RETHINKING,
            depth_multiplier=0.25,
        ),
        _impact("inception_v4", "InceptionV4"),
        _impact("inception_resnet_v2", "InceptionResnetV2"),
        *(_resnet(f"resnet_v1_{depth}", _RESIDUAL) for depth in (50, 101, 152, 200)),
        *(_resnet(f"resnet_v2_{depth}", _IDENTITY) for depth in (50, 101, 152, 200)),
        *(_three_dense(f"vgg_{depth}", _VERY_DEEP) for depth in ("a", 16, 19)),
        _three_dense("alexnet_v2", _WEIRD_TRICK),
        _three_dense("overfeat", _OVERFEAT, image_size=231),
        *(_mobilenet(version, multiplier) for version, multiplier, _ in MOBILENETS),
        _mnist("softmax", "MnistSoftmax", "Logits", "Flatten", has_dropout=False),
        _mnist("mlp", "MnistMlp", "layer2", "layer1", has_dropout=False),
        _mnist(
            *("lenet", "MnistLenet", "fc4", "fc3"),
            dropouts=(("MnistLenet/Dropout", "MnistLenet/fc4"),),
        ),
    )
}
"""Name -> net, in the order they are shown."""
