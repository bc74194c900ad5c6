"""slimtune mnist: small nets for digits, from pictures to a frozen graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.training_options import schedule_options
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.mnist_cases import MnistResult


@verb(
    "mnist",
    example="slimtune mnist softmax --run runs/softmax --steps 500\n"
    "slimtune mnist lenet --run runs/lenet --steps 300 --schedule exponential --decay-rate 0.9",
)
@click.argument("case", type=click.Choice(["softmax", "mlp", "lenet"]))
@click.option("--run", required=True, type=click.Path(), metavar="DIR", help="The run directory.")
@click.option(
    "--data",
    type=click.Path(),
    metavar="IDX_DIR",
    help="MNIST's four files, as data download mnist fetches them, or a dataset built of them. "
    "Left out: digits are drawn.",
)
@click.option(
    "--steps",
    type=int,
    metavar="N",
    help="Steps of the whole run; softmax 5000, mlp 30000, lenet 20000.",
)
@click.option(
    "--learning-rate", type=float, metavar="RATE", help="softmax 0.5, mlp 0.001, lenet 0.0001."
)
@schedule_options
@click.option("--seed", type=int, metavar="N", help="Of initial values, order and dropout; 0.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run.")
@click.option("--overwrite", is_flag=True, help="Start again.")
def command(output: Output, case: str, **options: Any) -> None:
    """Train a small net to read digits, freeze it, and try it on pictures it never saw.

    softmax is one linear layer, trained by gradient descent; mlp has 50 hidden units and L2
    losses; lenet is LeNet-5 with two convolutions and dropout. What train does is done: the run is
    evaluated on its way and can be resumed; evaluate, convert and predict take it. The frozen graph
    is model.pb in it, and its accuracy is of the test pictures.
    """
    from finetune.mnist_cases import mnist

    result = mnist(case, progress=output, **options)
    output.result(result.as_json(), *_lines(result))
    model = Path(result.model)
    output.next(
        shell_words("slimtune", "predict", model, model.with_name("digits")),
        shell_words("slimtune", "evaluate", model, Path(result.data), "--split", result.split),
        shell_words("slimtune", "convert", Path(result.run), f"{case}.tflite"),
    )


def _lines(result: MnistResult) -> list[str]:
    lines = ["Predictions of pictures that were not trained on, from the .pb alone:"]
    for prediction in result.predictions:
        best = prediction["classes"][0]
        lines.append(f"  {one_line(prediction['path'])}: {best['label']} {best['probability']:.1%}")
    proof = result.verification["mode"]
    return [
        *lines,
        f"Accuracy      {result.accuracy:.2%} of {result.count} {result.split} pictures, after "
        f"step {result.step}",
        f"Frozen graph  {result.model}, verified ({proof})",
        f"Report        {result.report}",
    ]
