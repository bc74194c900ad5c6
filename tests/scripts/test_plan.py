"""slimtune plan: what people and programs see of hidden layers and phases."""

import json

import pytest

SMALL = ("plan", "--net", "mnist_lenet", "--checkpoint", "none", "--classes", 4)


@pytest.mark.tensorflow
def test_hidden_layers_and_phases_are_shown(slimtune):
    words = (*SMALL, "--hidden", "8, 6", "--unfreeze-at", "2e:MnistLenet/fc3, all")
    code, out, err = slimtune(*words)
    assert code == 0, err
    rows = [line.split() for line in out.splitlines()]
    assert rows[3][:6] == ["MnistLenet/fc3", "frozen", "until", "phase", "2", "initialised"]
    assert rows[4][:4] == ["MnistLenet/fc4", "trainable", "initialised", "6"]
    assert "Phase 2 of 2, from epoch 3 on, also trains MnistLenet: " in out
    assert out.rstrip().endswith("--hidden 8,6 --unfreeze-at 2e:MnistLenet/fc3,all")
    value = json.loads(slimtune(*words, "--json")[1])
    assert [phase["begins"] for phase in value["phases"]] == ["step 1", "epoch 3"]
    hidden = [v for v in value["variables"] if "/Hidden_" in v["name"]]
    assert {(v["state"], v["origin"]) for v in hidden} == {("trainable", "initialised")}
    assert [v["shape"][-1] for v in hidden] == [8, 8, 6, 6]


@pytest.mark.tensorflow
def test_a_recipe_has_its_phases(slimtune):
    code, out, _ = slimtune(*SMALL, "--recipe", "slim-flowers")
    assert code == 0
    assert "Phase 2 of 2, from step 1001 on, also trains MnistLenet: " in out
    assert out.rstrip().endswith("--recipe slim-flowers")


def test_options_that_make_no_sense_are_wrong_usage(slimtune):
    code, out, _ = slimtune(*SMALL, "--hidden", "8,wide", "--json")
    assert code == 2
    assert json.loads(out)["error"]["received"] == "--hidden 8,wide"
