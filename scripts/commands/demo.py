"""slimtune demo: the whole path on drawn flowers, offline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from checkpoints.command_lines import shell_words
from scripts.output import Output, one_line
from scripts.verb import verb

if TYPE_CHECKING:
    from finetune.datasets.dataset import Dataset

NET, CHECKPOINT = "inception_v3_sample", "sample"
EPOCHS = 10
LEARNING_RATE = 0.01
RATES = (0.003, 0.01, 0.03)
"""Learning rates that the head on a random trunk may choose from."""

ONLY_AT_THE_END = 10**9

OWN_FILES = r"(flowers|dataset|run|random-trunk)/.*|model\.pb"
"""What a demo leaves in its directory, and --overwrite may remove."""

SHOWN = 8


@verb("demo", example="slimtune demo --out flowers-demo")
@click.option("--out", type=click.Path(), default="slimtune-demo", show_default=True, metavar="DIR")
@click.option(
    "--per-class",
    type=click.IntRange(20),
    default=160,
    show_default=True,
    help="Pictures of each kind.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace DIR.")
def command(output: Output, out: str, per_class: int, seed: int, overwrite: bool) -> None:
    """Draw flowers, build records, fine-tune, evaluate, export, predict, and show a report.

    Five kinds of flowers are drawn and the small base that ships with slimtune learns to tell
    them apart; the same head on a trunk that has learned nothing shows what transfer is worth.
    """
    from checkpoints.files import atomic_directory, refuse_existing, refuse_foreign_files

    began = time.monotonic()
    directory = Path(out)
    refuse_existing(directory, overwrite, is_directory=True)
    refuse_foreign_files(directory, OWN_FILES, "an earlier demo")
    with atomic_directory(directory, overwrite):
        pass
    demo = _Demo(output, directory, per_class, seed)
    value = demo.run()
    value["seconds"] = time.monotonic() - began
    output.result(value, *demo.summary(value))
    output.next(
        shell_words("slimtune", "inspect", Path(value["run"])),
        shell_words("slimtune", "predict", Path(value["model"]), "YOUR.jpg"),
        "slimtune train YOUR_PICTURES --run runs/mine --checkpoint inception_v3",
    )


class _Demo:
    """The steps, each one library call whose only input is what the one before wrote."""

    def __init__(self, output: Output, directory: Path, per_class: int, seed: int) -> None:
        self.output = output
        self.per_class = per_class
        self.seed = seed
        self.pictures = directory / "flowers"
        self.data = directory / "dataset"
        self.run_directory = directory / "run"
        self.random = directory / "random-trunk"
        self.model = directory / "model.pb"

    def run(self) -> dict[str, Any]:
        """Does it all; gives the figures."""
        from checkpoints.files import write_json
        from finetune.datasets.build import build
        from finetune.evaluating.evaluation import evaluate
        from finetune.planning import plan
        from finetune.report import write_report
        from finetune.run import Run
        from finetune.sample.flowers import write_flowers

        say = self.output.say
        say(f"1. Drawing {self.per_class} pictures of each of five kinds of flowers")
        write_flowers(self.pictures, per_class=self.per_class, seed=self.seed, progress=self.output)
        say(f"2. data build: {self.pictures} -> {self.data}")
        build(self.pictures, self.data, val=0.15, test=0.25, progress=self.output)
        say(f"3. plan: {CHECKPOINT} -> {NET}")
        made = plan(net=NET, checkpoint=CHECKPOINT, classes=5, progress=self.output)
        totals = made.totals()
        say(f"   {totals['restored']} variables restored, {totals['initialised']} initialised")
        say(f"4. train: the head, {EPOCHS} epochs")
        trained = self._train(self.run_directory, CHECKPOINT, LEARNING_RATE)
        say("5. evaluate: pictures that training never saw")
        found = evaluate(self.run_directory, self.data, split="test", progress=self.output)
        write_json(Run(self.run_directory).evaluation_file, found.as_json(pictures=True))
        say(f"6. convert: {self.run_directory} -> {self.model}")
        verification = self._convert()
        say("7. predict: from the .pb alone")
        predictions = self._predict(found.names)
        say("8. The same head on a trunk that has learned nothing")
        comparison = self._compare(found.accuracy)
        report = write_report(
            self.run_directory,
            model_verification=verification,
            comparison=comparison,
            predictions=predictions,
        )
        return {
            "accuracy": found.accuracy,
            "count": found.count,
            "random_trunk_accuracy": comparison["accuracy"],
            "comparison": comparison,
            "frozen_verified": trained.frozen_verified,
            "verification": verification,
            "predictions": predictions,
            "run": str(self.run_directory),
            "model": str(self.model),
            "report": str(report),
        }

    def summary(self, value: dict[str, Any]) -> list[str]:
        """The end of the demo, for people."""
        lines = ["", "Predictions of held-out pictures, from the .pb alone:"]
        for prediction in value["predictions"]:
            best = prediction["classes"][0]
            lines.append(
                f"  {one_line(prediction['path'])}: {best['label']} {best['probability']:.1%}"
            )
        proof = value["verification"]
        gain = 100 * (value["accuracy"] - value["random_trunk_accuracy"])
        return [
            *lines,
            "",
            f"Accuracy        {value['accuracy']:.1%} of {value['count']} held-out pictures",
            f"Random trunk    {value['random_trunk_accuracy']:.1%}: transfer is worth {gain:.0f} points",
            f"Frozen graph    {value['model']}, verified ({proof['mode']})",
            f"Report          {value['report']}",
            f"Time            {value['seconds']:.0f} s",
        ]

    def _train(
        self,
        run: Path,
        checkpoint: str,
        learning_rate: float,
        eval_every: int | None = None,
    ) -> Any:
        from finetune.config import TrainConfig
        from finetune.training.training import train

        config = TrainConfig(
            data=str(self.data),
            run=str(run),
            net=NET,
            checkpoint=checkpoint,
            epochs=EPOCHS,
            learning_rate=learning_rate,
            eval_every=eval_every,
            augment="none",
            seed=self.seed,
        )
        return train(config, progress=self.output)

    def _convert(self) -> dict[str, Any]:
        from exporters import convert

        done = convert(self.run_directory, self.model, verify="run", progress=self.output)
        return done.verification.as_json()

    def _predict(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        from finetune.prediction import predict

        chosen = names[:: max(1, len(names) // SHOWN)][:SHOWN]
        files = [self.pictures / name for name in chosen]
        return [p.as_json() for p in predict(self.model, files, top=3, progress=self.output)]

    def _compare(self, accuracy: float) -> dict[str, Any]:
        from finetune.datasets.dataset import read_dataset
        from finetune.evaluating.evaluation import evaluate
        from finetune.training.random_trunk import write_random_trunk

        dataset: Dataset = read_dataset(self.data)
        trunk = self.random / "trunk.ckpt"
        write_random_trunk(trunk, NET, dataset, seed=self.seed, progress=self.output)
        scores = {}
        for rate in RATES:
            run = self.random / f"rate-{rate:g}"
            self._train(run, str(trunk), rate, eval_every=ONLY_AT_THE_END)
            scores[rate] = evaluate(run, dataset, split="test", progress=self.output).accuracy
        best = max(scores, key=lambda rate: scores[rate])
        return {
            "what": "the same head on a random trunk",
            "accuracy": scores[best],
            "best_learning_rate": best,
            "rows": [
                {"name": "pretrained trunk", "accuracy": accuracy},
                *({"name": f"random trunk, rate {r:g}", "accuracy": a} for r, a in scores.items()),
            ],
        }
