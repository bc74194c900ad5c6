"""Published recipes as options of train; docs/recipes.md says what to expect of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.errors import UsageError

RECIPES: Mapping[str, Mapping[str, Any]] = {
    # TF-Slim's flowers walkthrough, finetune_inception_v3_on_flowers.sh: new heads, then all.
    "slim-flowers": {
        "trainable": ("heads",),
        "steps": 1500,
        "unfreeze_at": ("1000:all",),
        "batch_size": 32,
        "optimizer": "rmsprop",
        "learning_rate": 0.01,
        "unfreeze_learning_rate": 0.0001,
        "schedule": "fixed",
        "weight_decay": 0.00004,
        # Batch norms of all layers update; over 500 steps, they follow the data so.
        "batch_norm_decay": 0.98,
        "augment": "full",
        "init": "default",
    },
    # TF Hub's retrain.py: gradient descent on the features of undistorted pictures.
    "retrain": {
        "steps": 4000,
        "batch_size": 100,
        "optimizer": "sgd",
        "learning_rate": 0.01,
        "schedule": "fixed",
        "weight_decay": 0.0,
        "dropout": 0.0,
        "augment": "none",
        "init": "default",
    },
}
"""Recipe -> its options, under the names of TrainConfig."""


def with_recipe(recipe: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of TrainConfig: those given, the others as the recipe has them.

    Args:
      recipe: a name in RECIPES, or None.
      options: what was given; goes before the recipe.

    Raises:
      UsageError: there is no such recipe.
    """
    if recipe is None:
        return dict(options)
    if recipe not in RECIPES:
        raise UsageError(
            f"There is no recipe {recipe!r}.",
            expected="one of " + ", ".join(RECIPES),
            received=recipe,
        )
    values = {**RECIPES[recipe], **options}
    if "epochs" in options:
        del values["steps"]
    return values
