import pytest

from checkpoints.errors import NotFoundError
from checkpoints.published import (
    CHECKPOINTS,
    NETS,
    PUBLISHED_AT,
    checkpoints_for,
    get_checkpoint,
    get_net,
)

FACTS = {
    # name: (classes, label offset, image size, preprocessing, address after PUBLISHED_AT)
    "inception_v1": (1001, 1, 224, "inception", "/inception_v1_2016_08_28.tar.gz"),
    "inception_v2": (1001, 1, 224, "inception", "/inception_v2_2016_08_28.tar.gz"),
    "inception_v3": (1001, 1, 299, "inception", "/inception_v3_2016_08_28.tar.gz"),
    "resnet_v1_50": (1000, 0, 224, "vgg", "/resnet_v1_50_2016_08_28.tar.gz"),
    "resnet_v1_101": (1000, 0, 224, "vgg", "/resnet_v1_101_2016_08_28.tar.gz"),
    "resnet_v1_152": (1000, 0, 224, "vgg", "/resnet_v1_152_2016_08_28.tar.gz"),
    "resnet_v2_50": (1001, 1, 299, "inception", "/resnet_v2_50_2017_04_14.tar.gz"),
    "resnet_v2_101": (1001, 1, 299, "inception", "/resnet_v2_101_2017_04_14.tar.gz"),
    "resnet_v2_152": (1001, 1, 299, "inception", "/resnet_v2_152_2017_04_14.tar.gz"),
    "vgg_16": (1000, 0, 224, "vgg", "/vgg_16_2016_08_28.tar.gz"),
    "vgg_19": (1000, 0, 224, "vgg", "/vgg_19_2016_08_28.tar.gz"),
    "mobilenet_v1_1.0_224": (
        *(1001, 1, 224, "inception"),
        "/mobilenet_v1_2018_08_02/mobilenet_v1_1.0_224.tgz",
    ),
}


def test_the_facts_of_every_published_checkpoint():
    found = {
        name: (c.classes, c.label_offset, c.image_size, c.preprocessing, c.url[len(PUBLISHED_AT) :])
        for name, c in CHECKPOINTS.items()
        if c.url is not None
    }
    assert found == FACTS
    assert PUBLISHED_AT.startswith("https://")


def test_only_the_sample_ships_with_slimtune():
    assert [name for name, record in CHECKPOINTS.items() if record.url is None] == ["sample"]
    sample = get_checkpoint("sample")
    assert (sample.net, sample.bundled) == (
        "inception_v3_sample",
        "finetune/sample/base/model.ckpt",
    )


def test_every_checkpoint_goes_with_a_net_and_every_net_has_one():
    assert {record.net for record in CHECKPOINTS.values()} == set(NETS)
    assert [record.name for record in checkpoints_for(get_net("mobilenet_v1"))] == [
        "mobilenet_v1_1.0_224"
    ]


@pytest.mark.parametrize("net", NETS.values(), ids=NETS)
def test_heads_stand_inside_the_nets_scope(net):
    assert all(scope.startswith(f"{net.scope}/") for scope in net.head_scopes)
    module, _, function = net.builder.partition(":")
    assert module.startswith("finetune.nets.") and function.isidentifier()


def test_inception_v3_has_two_heads():
    net = get_net("inception_v3")
    assert net.main_head == "InceptionV3/Logits"
    assert net.head_scopes == ("InceptionV3/Logits", "InceptionV3/AuxLogits")
    assert (net.image_size, net.bottleneck, net.depth_multiplier) == (299, "PreLogits", 1.0)


def test_the_sample_net_is_a_narrow_inception_v3():
    sample, whole = get_net("inception_v3_sample"), get_net("inception_v3")
    assert (sample.builder, sample.scope) == (whole.builder, whole.scope)
    assert (sample.depth_multiplier, sample.image_size) == (0.25, 149)


def test_an_unknown_name_gets_near_ones():
    with pytest.raises(NotFoundError, match="no net named 'Incepton_v3'") as caught:
        get_net("Incepton_v3")
    assert "inception_v3" in caught.value.expected
    with pytest.raises(NotFoundError, match=r"mobilenet_v1_1\.0_224"):
        get_checkpoint("mobilenet_v1")
    with pytest.raises(NotFoundError, match="One of: inception_v1, "):
        get_checkpoint("zoo")
