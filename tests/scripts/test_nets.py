import json

import pytest

from checkpoints.published import CHECKPOINTS, NETS
from scripts.main import main


@pytest.fixture
def run(capsys):
    """Types a command; gives (exit code, stdout, stderr)."""

    def type_(*words):
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return type_


def named(out):
    return [net["name"] for net in json.loads(out)["nets"]]


def test_all_nets_and_all_checkpoints(run):
    code, out, err = run("nets", "--json")
    assert (code, err) == (0, "")
    nets = json.loads(out)["nets"]
    assert [net["name"] for net in nets] == list(NETS)
    assert [c["name"] for net in nets for c in net["checkpoints"]] == list(CHECKPOINTS)


def test_what_programs_learn_of_a_net(run):
    (net,) = json.loads(run("nets", "inception_v3", "--json")[1])["nets"][:1]
    (checkpoint,) = net.pop("checkpoints")
    assert net["head_scopes"] == ["InceptionV3/Logits", "InceptionV3/AuxLogits"]
    assert (net["image_size"], net["preprocessing"], net["bottleneck"]) == (
        *(299, "inception"),
        "PreLogits",
    )
    assert net["paper"]["authors"] == "Szegedy et al."
    assert (checkpoint["name"], checkpoint["classes"]) == ("inception_v3", 1001)
    assert (checkpoint["label_offset"], checkpoint["image_size"]) == (1, 299)
    assert checkpoint["url"].startswith("https://")


def test_what_people_see(run):
    code, out, _ = run("nets", "resnet_v2_50")
    assert code == 0
    assert out == (
        "NET / CHECKPOINT  PIXELS  PREPROCESSING  CLASSES  OFFSET  BOTTLENECK   HEADS\n"
        "resnet_v2_50      224     vgg                             global_pool  "
        "resnet_v2_50/logits\n"
        "  resnet_v2_50    299     inception      1001     1\n"
        "He et al. 2016: Identity Mappings in Deep Residual Networks\n"
        "resnet_v2_50: https://storage.googleapis.com/download.tensorflow.org/models/"
        "resnet_v2_50_2017_04_14.tar.gz\n"
        "Next: slimtune download NAME\n"
        "  or  slimtune plan --net NET --checkpoint NAME --classes 5\n"
    )


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (
            "*incep*_v[34]*",
            ["inception_v3", "inception_v3_sample", "inception_v4"],
        ),
        ("VGG", ["vgg_a", "vgg_16", "vgg_19"]),
        ("vgg_1?", ["vgg_16", "vgg_19"]),
        ("inception_v[12]", ["inception_v1", "inception_v2"]),
        ("mobilenet_v1_1.0_224", ["mobilenet_v1"]),
        ("sample", ["inception_v3_sample"]),
    ],
)
def test_patterns(run, pattern, expected):
    code, out, _ = run("nets", pattern, "--json")
    assert code == 0
    assert named(out) == expected


def test_a_paper_comes_once_and_weights_that_ship_with_slimtune_have_no_address(run):
    out = run("nets", "inception_v3")[1]
    assert out.count("Szegedy et al. 2015: Rethinking the Inception Architecture") == 1
    assert "\nsample: ships with slimtune\n" in out
    assert "https" not in run("nets")[1]


def test_a_net_without_weights_has_no_line_below_it(run):
    out = run("nets", "overfeat")[1]
    assert out.splitlines()[1:3] == [
        "overfeat          231     vgg                             overfeat/fc7  overfeat/fc8",
        "Sermanet et al. 2013: OverFeat: Integrated Recognition, Localization and Detection using "
        "Convolutional Networks",
    ]


def test_a_pattern_without_a_match(run):
    code, out, err = run("nets", "incepton_v3")
    assert (code, out) == (1, "")
    assert "Names near it: inception_v3" in err
    assert run("nets", "zzz*")[0] == 1
