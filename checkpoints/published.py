"""Weights published for the nets, and nets and weights by name. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from checkpoints.errors import NotFoundError, near_names
from checkpoints.net_records import MOBILENETS, mobilenet_name
from checkpoints.net_records import NETS as NETS
from checkpoints.net_records import Net as Net
from checkpoints.net_records import Paper as Paper

PUBLISHED_AT = "https://storage.googleapis.com/download.tensorflow.org/models"
"""Where the archives live that TF-Slim's pages name at download.tensorflow.org/models."""

MOBILENETS_AT = {
    1: f"{PUBLISHED_AT}/mobilenet_v1_2018_08_02",
    2: "https://storage.googleapis.com/mobilenet_v2/checkpoints",
}
"""Version of MobileNet -> where the archives of its multipliers and sizes live."""


@dataclass(frozen=True)
class PublishedCheckpoint:
    """Weights for a net that can be had by name.

    Attributes:
      name: what `--checkpoint` and `download` take.
      net: name of the Net they are for.
      url: https address of the archive, or None where the weights ship with slimtune.
      member: path of the checkpoint inside the archive: the one file of a V1 checkpoint,
        the prefix of a V2 one.
      version: of the checkpoint format, or None where it is not known beforehand.
      classes: length of the logits.
      label_offset: what is added to a 0-based ImageNet class to give the checkpoint's class;
        1 where class 0 is the background.
      image_size: height and width the weights were trained for, in pixels.
      preprocessing: how pictures become their input.
      bundled: "package/path" of weights that ship with slimtune, else None.
    """

    name: str
    net: str
    url: str | None
    member: str
    version: Literal["v1", "v2"] | None
    classes: int
    label_offset: int
    image_size: int
    preprocessing: Literal["inception", "vgg"]
    bundled: str | None = None


def _slim(
    name: str,
    date: str,
    preprocessing: Literal["inception", "vgg"],
    image_size: int = 224,
    version: Literal["v1", "v2"] | None = "v1",
    member: str | None = None,
) -> PublishedCheckpoint:
    """A tar.gz of TF-Slim's table: one .ckpt file, named like its net unless said.

    The weights that came from Caffe (VGG, ResNet-v1: VGG preprocessing) know 1000 classes;
    those trained with TensorFlow know 1001, with the background first.
    """
    with_background = preprocessing == "inception"
    return PublishedCheckpoint(
        name=name,
        net=name,
        url=f"{PUBLISHED_AT}/{name}_{date}.tar.gz",
        member=member or f"{name}.ckpt",
        version=version,
        classes=1001 if with_background else 1000,
        label_offset=1 if with_background else 0,
        image_size=image_size,
        preprocessing=preprocessing,
    )


def _mobilenet_weights(version: int, multiplier: float, size: int) -> PublishedCheckpoint:
    """One of the archives of a MobileNet: a V2 checkpoint for one multiplier and one size."""
    name = f"mobilenet_v{version}_{multiplier}_{size}"
    return PublishedCheckpoint(
        name=name,
        net=mobilenet_name(version, multiplier),
        url=f"{MOBILENETS_AT[version]}/{name}.tgz",
        member=f"{name}.ckpt",
        version="v2",
        classes=1001,
        label_offset=1,
        image_size=size,
        preprocessing="inception",
    )


CHECKPOINTS: dict[str, PublishedCheckpoint] = {
    checkpoint.name: checkpoint
    for checkpoint in (
        _slim("inception_v1", "2016_08_28", "inception"),
        _slim("inception_v2", "2016_08_28", "inception"),
        _slim("inception_v3", "2016_08_28", "inception", image_size=299),
        PublishedCheckpoint(
            name="sample",
            net="inception_v3_sample",
            url=None,
            member="model.ckpt",
            version="v2",
            classes=63,
            label_offset=0,
            image_size=149,
            preprocessing="inception",
            bundled="finetune/sample/base/model.ckpt",
        ),
        _slim("inception_v4", "2016_09_09", "inception", image_size=299),
        _slim(
            *("inception_resnet_v2", "2016_08_30", "inception"),
            image_size=299,
            member="inception_resnet_v2_2016_08_30.ckpt",
        ),
        *(_slim(f"resnet_v1_{depth}", "2016_08_28", "vgg") for depth in (50, 101, 152)),
        # ResNet-v2 is built for 224, but its published weights want what Inception-v3's want.
        *(
            _slim(f"resnet_v2_{depth}", "2017_04_14", "inception", image_size=299, version=None)
            for depth in (50, 101, 152)
        ),
        *(_slim(f"vgg_{depth}", "2016_08_28", "vgg") for depth in (16, 19)),
        *(
            _mobilenet_weights(version, multiplier, size)
            for version, multiplier, sizes in MOBILENETS
            for size in sizes
        ),
    )
}
"""Name -> published checkpoint, in the order they are shown."""


def get_net(name: str) -> Net:
    """The record of a net.

    Raises:
      NotFoundError: no net has this name; near names are listed.
    """
    if name not in NETS:
        raise _not_found("net", name, list(NETS))
    return NETS[name]


def get_checkpoint(name: str) -> PublishedCheckpoint:
    """The record of a published checkpoint.

    Raises:
      NotFoundError: no published checkpoint has this name; near names are listed.
    """
    if name not in CHECKPOINTS:
        raise _not_found("published checkpoint", name, list(CHECKPOINTS))
    return CHECKPOINTS[name]


def checkpoints_for(net: Net) -> list[PublishedCheckpoint]:
    """The published checkpoints that go with a net, in the order they are shown."""
    return [checkpoint for checkpoint in CHECKPOINTS.values() if checkpoint.net == net.name]


def _not_found(kind: str, name: str, names: Sequence[str]) -> NotFoundError:
    near = near_names(name, names)
    return NotFoundError(
        f"There is no {kind} named {name!r}.",
        expected=("Names near it: " if near else "One of: ") + ", ".join(near or names),
        received=name,
        next_step="slimtune nets lists all.",
    )
