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
    "inception_v4": (1001, 1, 299, "inception", "/inception_v4_2016_09_09.tar.gz"),
    "inception_resnet_v2": (
        *(1001, 1, 299, "inception"),
        "/inception_resnet_v2_2016_08_30.tar.gz",
    ),
    "resnet_v1_50": (1000, 0, 224, "vgg", "/resnet_v1_50_2016_08_28.tar.gz"),
    "resnet_v1_101": (1000, 0, 224, "vgg", "/resnet_v1_101_2016_08_28.tar.gz"),
    "resnet_v1_152": (1000, 0, 224, "vgg", "/resnet_v1_152_2016_08_28.tar.gz"),
    "resnet_v2_50": (1001, 1, 299, "inception", "/resnet_v2_50_2017_04_14.tar.gz"),
    "resnet_v2_101": (1001, 1, 299, "inception", "/resnet_v2_101_2017_04_14.tar.gz"),
    "resnet_v2_152": (1001, 1, 299, "inception", "/resnet_v2_152_2017_04_14.tar.gz"),
    "vgg_16": (1000, 0, 224, "vgg", "/vgg_16_2016_08_28.tar.gz"),
    "vgg_19": (1000, 0, 224, "vgg", "/vgg_19_2016_08_28.tar.gz"),
}

WITHOUT_WEIGHTS = {"vgg_a", "alexnet_v2", "overfeat", "resnet_v1_200", "resnet_v2_200"}
"""TF-Slim has these nets, and its table of weights does not."""

MOBILENETS = {
    # net: (multiplier, sizes), as mobilenet_v1.md and mobilenet/README.md of TF-Slim list them
    "mobilenet_v1": ("1.0", (224, 192, 160, 128)),
    "mobilenet_v1_075": ("0.75", (224, 192, 160, 128)),
    "mobilenet_v1_050": ("0.5", (224, 192, 160, 128)),
    "mobilenet_v1_025": ("0.25", (224, 192, 160, 128)),
    "mobilenet_v2": ("1.0", (224, 192, 160, 128, 96)),
    "mobilenet_v2_140": ("1.4", (224,)),
    "mobilenet_v2_130": ("1.3", (224,)),
    "mobilenet_v2_075": ("0.75", (224, 192, 160, 128, 96)),
    "mobilenet_v2_050": ("0.5", (224, 192, 160, 128, 96)),
    "mobilenet_v2_035": ("0.35", (224, 192, 160, 128, 96)),
}


def test_the_facts_of_every_published_checkpoint():
    found = {
        name: (c.classes, c.label_offset, c.image_size, c.preprocessing, c.url[len(PUBLISHED_AT) :])
        for name, c in CHECKPOINTS.items()
        if c.url is not None and not name.startswith("mobilenet_")
    }
    assert found == FACTS
    assert PUBLISHED_AT.startswith("https://")


def test_every_width_and_size_of_the_mobilenets_is_there():
    assert [name for name in NETS if name.startswith("mobilenet_")] == list(MOBILENETS)
    for net, (multiplier, sizes) in MOBILENETS.items():
        found = checkpoints_for(get_net(net))
        version = net.split("_")[1]
        names = [f"mobilenet_{version}_{multiplier}_{size}" for size in sizes]
        assert [record.name for record in found] == names
        assert [record.image_size for record in found] == list(sizes)
        assert get_net(net).depth_multiplier == float(multiplier)
        for record in found:
            assert (record.classes, record.label_offset, record.preprocessing) == (
                *(1001, 1),
                "inception",
            )
            assert (record.member, record.version) == (f"{record.name}.ckpt", "v2")
            assert record.url is not None
            assert record.url.endswith(f"/{record.name}.tgz")


def test_where_the_mobilenets_live():
    google = "https://storage.googleapis.com"
    assert get_checkpoint("mobilenet_v1_0.5_160").url == (
        f"{google}/download.tensorflow.org/models/mobilenet_v1_2018_08_02/mobilenet_v1_0.5_160.tgz"
    )
    assert get_checkpoint("mobilenet_v2_1.4_224").url == (
        f"{google}/mobilenet_v2/checkpoints/mobilenet_v2_1.4_224.tgz"
    )


def test_only_the_sample_ships_with_slimtune():
    assert [name for name, record in CHECKPOINTS.items() if record.url is None] == ["sample"]
    sample = get_checkpoint("sample")
    assert (sample.net, sample.bundled) == (
        "inception_v3_sample",
        "finetune/sample/base/model.ckpt",
    )


def test_every_checkpoint_goes_with_a_net_and_which_nets_have_none():
    with_weights = {record.net for record in CHECKPOINTS.values()}
    assert with_weights <= set(NETS)
    without = {name for name in set(NETS) - with_weights if not name.startswith("mnist_")}
    assert without == WITHOUT_WEIGHTS


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


def test_the_checkpoint_of_an_archive_need_not_have_its_nets_name():
    record = get_checkpoint("inception_resnet_v2")
    assert record.member == "inception_resnet_v2_2016_08_30.ckpt"
    assert get_checkpoint("inception_v4").member == "inception_v4.ckpt"


@pytest.mark.parametrize("name", ["vgg_a", "vgg_16", "vgg_19", "alexnet_v2", "overfeat"])
def test_nets_that_end_in_three_dense_layers(name):
    net = get_net(name)
    assert (net.main_head, net.bottleneck) == (f"{name}/fc8", f"{name}/fc7")
    assert net.dropouts == (
        (f"{name}/dropout6", f"{name}/fc7"),
        (f"{name}/dropout7", f"{name}/fc8"),
    )


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
