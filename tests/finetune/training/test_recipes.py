import pytest

from checkpoints.errors import UsageError
from finetune.config import TrainConfig
from finetune.training.phases import make_phases
from finetune.training.recipes import RECIPES, with_recipe
from scripts import training_options


def config(recipe, **options):
    return TrainConfig(**with_recipe(recipe, {"data": "d", "run": "r", **options}))


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_options_that_fit(recipe):
    made = config(recipe)
    for name, value in RECIPES[recipe].items():
        assert getattr(made, name) == value
    assert recipe in training_options.RECIPES


def test_slim_flowers_trains_both_heads_and_then_everything_at_a_hundredth(tiny_net):
    first, second = make_phases(config("slim-flowers"), tiny_net, 1500, 3320)
    assert (first.last, second.last) == (1000, 1500)
    assert first.trainable == ("Tiny/Logits", "Tiny/AuxLogits")
    assert second.trainable == ("Tiny",)
    assert (first.schedule.at(999), second.schedule.at(0)) == (0.01, 0.0001)


def test_what_is_given_goes_before_the_recipe():
    made = config("slim-flowers", batch_size=8, optimizer="adam", steps=1200)
    assert (made.batch_size, made.optimizer, made.steps) == (8, "adam", 1200)
    assert (made.learning_rate, made.unfreeze_at) == (0.01, ("1000:all",))
    epochs = config("retrain", epochs=3)
    assert (epochs.steps, epochs.epochs) == (None, 3)


def test_without_a_recipe_nothing_is_added():
    assert with_recipe(None, {"steps": 1}) == {"steps": 1}


def test_an_unknown_recipe_is_refused():
    with pytest.raises(UsageError, match="no recipe 'flowers'") as caught:
        with_recipe("flowers", {})
    assert caught.value.expected == "one of slim-flowers, retrain"
