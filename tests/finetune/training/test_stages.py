import pytest

from finetune.training.stages import (
    Stage,
    is_order_known,
    named_scopes,
    read_stages,
    scopes_by_phase,
)


def test_stages_are_read_with_steps_and_epochs_as_they_are_typed():
    texts = ("100:Net/A", "Net/B", "3e: Net/C", "100:Net/D")
    assert read_stages(texts, 10) == [
        Stage(30, ("Net/C",)),
        Stage(100, ("Net/A", "Net/B", "Net/D")),
    ]


def test_without_the_length_of_an_epoch_epochs_stay_epochs():
    stages = read_stages(("9e:Net/B", "5e:Net/A", "9e:Net/C"))
    assert stages == [Stage(5, ("Net/A",), True), Stage(9, ("Net/B", "Net/C"), True)]
    assert [stage.begins for stage in stages] == ["epoch 6", "epoch 10"]
    assert is_order_known(stages)


def test_between_steps_and_epochs_the_order_is_the_typed_one():
    stages = read_stages(("200:Net/A", "5e:Net/B", "100:Net/C"))
    assert [stage.begins for stage in stages] == ["step 201", "epoch 6", "step 101"]
    assert not is_order_known(stages)


def test_each_phase_trains_what_those_before_it_did_and_the_widest_scopes_stay(tiny_net):
    stages = [Stage(1, ("Tiny/Conv2d_10",)), Stage(2, ("all",))]
    assert scopes_by_phase(tiny_net, (), stages) == [
        ("Tiny/Logits",),
        ("Tiny/Logits", "Tiny/Conv2d_10"),
        ("Tiny",),
    ]


@pytest.mark.parametrize("scope", ["Tiny/Conv2d_1/", " Tiny/Conv2d_1", "Tiny/Conv2d_1"])
def test_a_slash_at_the_end_is_no_other_scope(tiny_net, scope):
    assert named_scopes(tiny_net, [scope, "heads"]) == (
        "Tiny/Conv2d_1",
        "Tiny/Logits",
        "Tiny/AuxLogits",
    )
