"""The many options of train, in groups; what they mean stands in finetune.config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from checkpoints.numbers import whole_number
from scripts.verb import names_option, option_group

OPTIMIZERS = ("adam", "rmsprop", "momentum", "sgd", "adagrad", "adadelta", "ftrl")
SCHEDULES = ("fixed", "exponential", "polynomial", "cosine")
AUGMENTS = ("none", "fast", "full")
CACHES = ("auto", "on", "off")
INITS = ("default", "prototypes")
ACTIVATIONS = ("relu", "leaky-relu")
PRECISIONS = ("auto", "fp32", "bf16")
RECIPES = ("slim-flowers", "retrain")


schedule_options = option_group(
    click.option("--schedule", type=click.Choice(SCHEDULES), help="Of the learning rate; fixed."),
    click.option(
        "--decay-steps",
        type=int,
        metavar="N",
        help="Steps of one decay: two epochs; of polynomial and cosine all there are.",
    ),
    click.option(
        "--decay-rate", type=float, metavar="FACTOR", help="Factor of one exponential decay; 0.94."
    ),
    click.option("--staircase", is_flag=True, default=None, help="Decay exponentially in stairs."),
)

rate_options = option_group(
    click.option(
        "--optimizer",
        type=click.Choice(OPTIMIZERS),
        help="adam. rmsprop has TF-Slim's settings: decay and momentum 0.9, epsilon 1.",
    ),
    names_option(
        "--optimizer-options",
        metavar="NAME=NUMBER,...",
        help="Other settings of the optimiser, by TensorFlow's names: momentum=0.9, epsilon=1.",
    ),
    click.option(
        "--learning-rate", type=float, metavar="RATE", help="One that suits the optimiser."
    ),
    schedule_options,
    click.option(
        "--end-learning-rate",
        type=float,
        metavar="RATE",
        help="What polynomial and cosine fall to; 0.",
    ),
    click.option("--warmup-steps", type=int, metavar="N", help="Steps in which the rate rises; 0."),
    names_option(
        "--learning-rate-factors",
        metavar="SCOPE=FACTOR,...",
        help="Other rates for some scopes; 0 keeps them as they are.",
    ),
    click.option(
        "--layer-decay",
        type=float,
        metavar="FACTOR",
        help="Factor of the rate for each block farther from the head; 1.",
    ),
    click.option(
        "--clip-norm",
        type=float,
        metavar="NORM",
        help="Scale gradients down to this global norm.",
    ),
)

partition_options = option_group(
    names_option(
        "--unfreeze-at",
        metavar="STEP:SCOPE,...",
        help="Train these scopes too from this step on (5e: after five epochs); 'all' is the "
        "whole net. Repeatable.",
    ),
    names_option(
        "--hidden", metavar="N,...", help="Widths of hidden layers before the logits; none."
    ),
    click.option("--activation", type=click.Choice(ACTIVATIONS), help="Of hidden layers; relu."),
    click.option(
        "--recipe",
        type=click.Choice(RECIPES),
        help="Options of a published recipe, for those not given; see docs/recipes.md.",
    ),
)
"""What decides, beside the net and its weights, which variables there are and which train when:
plan and train share it."""

unfreeze_options = option_group(
    click.option(
        "--unfreeze-learning-rate",
        type=float,
        metavar="RATE",
        help="The rate from then on; a hundredth of --learning-rate.",
    ),
    click.option(
        "--batch-norm-decay",
        type=float,
        metavar="SHARE",
        help="Of moving averages of trained batch norms, 1: they keep what they have. Left out: one that "
        "suits the number of steps, and 1 in scopes of --unfreeze-at.",
    ),
)

head_options = option_group(
    click.option(
        "--dropout", type=float, metavar="SHARE", help="Before the logits; the net's own."
    ),
    click.option(
        "--loss",
        metavar="MODULE:FUNCTION",
        help="A loss of your own: function(labels, logits), see docs/losses.md.",
    ),
    click.option(
        "--class-weights",
        metavar="balanced|FILE",
        help="How much pictures of each class count: alike, each class alike, or lines of "
        "class,weight.",
    ),
    click.option(
        "--label-smoothing", type=float, metavar="SHARE", help="Spread over all classes; 0."
    ),
    click.option(
        "--weight-decay", type=float, metavar="FACTOR", help="L2 of trained weights; 0.00004."
    ),
)

feature_options = option_group(
    click.option(
        "--augment",
        type=click.Choice(AUGMENTS),
        help="Distortion of training pictures; none where steps run on features, else full.",
    ),
    click.option(
        "--views",
        type=int,
        metavar="K",
        help="Store features of K views of each picture: the plain one and others distorted.",
    ),
    click.option(
        "--cache",
        type=click.Choice(CACHES),
        help="Whether features of a frozen trunk are stored: auto (where there is room).",
    ),
    click.option(
        "--init",
        type=click.Choice(INITS),
        help="Where a new linear head starts: prototypes (ridge regression on the features), "
        "which is taken where it can be, or default (at random).",
    ),
)

course_options = option_group(
    click.option(
        "--ema",
        type=float,
        metavar="DECAY",
        help="Keep a moving average of the weights, which is evaluated and exported.",
    ),
    click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        help="auto: bf16 where the CPU has it, it is faster and agrees with fp32.",
    ),
    click.option(
        "--eval-every", type=int, metavar="STEPS", help="Between evaluations; five in a run."
    ),
    click.option(
        "--patience",
        type=int,
        metavar="N",
        help="Stop after N evaluations without a better one.",
    ),
    click.option(
        "--keep", type=int, metavar="N", help="How many checkpoints are kept, the best apart; 3."
    ),
    click.option(
        "--save-seconds",
        type=float,
        metavar="SECONDS",
        help="Write a checkpoint after so long without one; 600.",
    ),
)


place_options = option_group(
    click.option(
        "--device",
        metavar="cpu|gpu|gpu:N",
        help="The only one that is used; TensorFlow's choice.",
    ),
    names_option(
        "--hosts",
        metavar="HOST:PORT,...",
        help="Train on several machines, or GPUs, together: the same command with all addresses on "
        "each. TF_CONFIG says the same.",
    ),
)


def given_options(recipe: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, under the names and with the types of TrainConfig.

    Args:
      recipe: whose options stand in for those not given, or None.
      options: as click has them: None or empty where not given.
    """
    from finetune.training.recipes import with_recipe

    given = {name: value for name, value in options.items() if value not in (None, ())}
    if "hidden" in given:
        given["hidden"] = tuple(map(_number, given["hidden"]))
    return with_recipe(recipe, given)


def _number(text: str) -> int | str:
    """A number where it is one; what is none is refused with the other options."""
    number = whole_number(text)
    return text if number is None else number
