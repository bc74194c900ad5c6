"""slimtune plan: what train would freeze, train, restore, initialise and leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from checkpoints.errors import PlanError
from scripts.output import Output
from scripts.rows import Rows
from scripts.training_options import given_options, partition_options
from scripts.verb import names_option, option_group, verb

if TYPE_CHECKING:
    from checkpoints.plan import Plan


PREPROCESSINGS = ("inception", "vgg", "lenet", "cifar", "grey", "none")


plan_options = option_group(
    click.option(
        "--net",
        metavar="NAME|FILE|MODULE:FUNCTION",
        help="A registered net, a .pb, .pbtxt or .meta of anyone's, or a function of yours; by "
        "default the checkpoint's, else inception_v3.",
    ),
    click.option(
        "--bottleneck",
        metavar="TENSOR",
        help="Of a net from a file: what feeds the new head. Default: as the file says, or "
        "what feeds its last layer.",
    ),
    click.option(
        "--input", metavar="TENSOR", help="Of a net from a file: what takes the pictures."
    ),
    click.option(
        "--preprocessing",
        type=click.Choice(PREPROCESSINGS),
        help="How pictures become the input. Default: as the weights want it; of a net from a file "
        "as it says, else inception.",
    ),
    click.option(
        "--checkpoint",
        metavar="C",
        help="A path in any spelling, a published name, 'sample', or 'none'. "
        "Default: the one published for the net.",
    ),
    names_option(
        "--trainable",
        metavar="SCOPE,...",
        help="Scopes to train, or 'all', or 'heads'. Default: the main head.",
    ),
    names_option(
        "--exclude",
        metavar="SCOPE,...|none",
        help="Scopes not to restore. Default: all heads.",
    ),
    click.option(
        "--allow-missing",
        metavar="REGEX",
        help="Variables the checkpoint may lack; they start at random.",
    ),
    click.option(
        "--image-size",
        type=click.IntRange(1),
        metavar="PX",
        help="Height and width of the pictures.",
    ),
)
"""The options that say which net starts from what: plan and train share them."""


@verb(
    "plan",
    example="slimtune plan --net inception_v3_sample --checkpoint sample --classes 5\n"
    "slimtune plan --checkpoint sample --classes 5 --hidden 64 --unfreeze-at 1000:all",
)
@plan_options
@partition_options
@click.option("--classes", type=click.IntRange(2), required=True, help="Classes of the new head.")
@click.option("--all", "every", is_flag=True, help="A row a variable instead of a row a scope.")
def command(output: Output, classes: int, every: bool, recipe: str | None, **options: Any) -> None:
    """Show what train would do, without doing it.

    Every variable of the net is frozen or trainable, restored or initialised; entries of the
    checkpoint that nothing takes are listed with the reason. With --unfreeze-at it is the first
    phase, and what each later one begins to train.
    """
    from finetune.planning import plan

    asked = {
        name: value for name, value in given_options(recipe, options).items() if name in options
    }
    with output.task("Planning", None):
        made = plan(classes=classes, progress=output, **asked)
    value = made.as_json()
    try:
        made.require_sound()
    except PlanError as error:
        if output.as_json:
            output.result({**value, "error": error.as_json()})
            raise click.exceptions.Exit(1) from error
        raise
    output.result(value, *plan_renderables(made, every))
    output.next(
        f"slimtune train DATA --run RUN {_as_typed({**options, 'recipe': recipe})}".rstrip()
    )


def _as_typed(options: dict[str, Any]) -> str:
    """The options that were given, as a command line holds them."""
    words = []
    for name, value in options.items():
        if value:
            text = ",".join(value) if isinstance(value, (tuple, list)) else str(value)
            words += ["--" + name.replace("_", "-"), text]
    return shell_words(*words)


def plan_renderables(made: Plan, every: bool = False) -> list[Rows | str]:
    """The plan for people: a table of scopes or variables, the rest in lines."""
    texts = ("variable" if every else "scope", "state", "origin")
    table = Rows(*texts, *(("shape",) if every else ("variables", "parameters")), texts=texts)
    for row in _variable_rows(made) if every else _scope_rows(made):
        table.add(*row)
    return [table, *made.lines()]


def _variable_rows(made: Plan) -> list[tuple[str, ...]]:
    states = _states(made)
    return [
        (v.name, states[v.name], v.origin, "x".join(map(str, v.shape)) or "scalar")
        for v in made.variables
    ]


def _scope_rows(made: Plan) -> list[tuple[str, ...]]:
    """Neighbouring variables of one second-level scope in the same state are one row."""
    states = _states(made)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for variable in made.variables:
        scope = "/".join(variable.name.split("/")[:2])
        row = (scope, states[variable.name], variable.origin)
        groups.setdefault(row, []).append(variable.parameters)
    return [
        (scope, state, origin, str(len(sizes)), f"{sum(sizes):,}")
        for (scope, state, origin), sizes in groups.items()
    ]


def _states(made: Plan) -> dict[str, str]:
    """Name of a variable -> frozen, trainable, or frozen until a later phase."""
    states = {variable.name: str(variable.state) for variable in made.variables}
    for phase in made.phases[1:]:
        states |= dict.fromkeys(phase.variables, f"frozen until phase {phase.number}")
    return states
