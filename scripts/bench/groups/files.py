"""Group `files`: checkpoints and graphs as files, against TensorFlow's own tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checkpoints.errors import VerificationError, listed
from checkpoints.progress import SILENT, Progress
from scripts.bench.case import Case, Check, Contender, Peer, Step, python, slimtune
from scripts.bench.groups.folding import folding_cases, near_answers
from scripts.bench.process import run_work

LIST_TARGET = 12.0
FREEZE_TARGET = 12.0
FREEZE_MEMORY_TARGET = 4.0
READ_TARGET = 1.0
CONVERT_TARGET = 5.0


@dataclass(frozen=True)
class Files:
    """One net's variables as checkpoints, and its inference graph beside one of them.

    Attributes:
      v1: a V1 checkpoint.
      v2: prefix of a V2 checkpoint with its .meta.
      frozen: the graph with those values as constants, batch norms and all.
      input: tensor name of the pictures in the graph.
      output: node name of the answers in the graph.
    """

    v1: Path
    v2: Path
    frozen: Path
    input: str
    output: str


def cases(directory: Path, quick: bool, progress: Progress = SILENT) -> list[Case]:
    """Makes Inception-v3's files in `directory` (0.4 GB) and the cases on them."""
    with progress.task("Writing Inception-v3's checkpoints with TensorFlow", None):
        run_work(python("scripts.bench.groups.inception_files", directory), directory)
    files = Files(
        v1=directory / "v1" / "model.ckpt",
        v2=directory / "v2" / "model.ckpt",
        frozen=directory / "frozen.pb",
        input="input:0",
        output="InceptionV3/Predictions/Reshape_1",
    )
    with progress.task("Freezing its graph", None):
        run_work(slimtune("convert", files.v2, files.frozen, "--outputs", files.output), directory)
    return cases_on(files, directory)


def cases_on(files: Files, directory: Path) -> list[Case]:
    """The cases on any net's files.

    Args:
      files: what is listed, read, frozen and folded.
      directory: where frozen graphs and checkpoints are written.
    """
    return [
        _list_case("list", "list a V2 checkpoint", files.v2),
        _list_case("list-v1", "list a V1 checkpoint", files.v1, in_quick=False),
        _read_case("read", "read all values of a V2 checkpoint", files.v2),
        _read_case("read-v1", "read all values of a V1 checkpoint", files.v1, in_quick=False),
        _freeze_case(files, directory),
        _convert_case("convert", files.v1, directory, "v2"),
        _convert_case("convert-v1", files.v2, directory, "v1", in_quick=False),
        *folding_cases(files.frozen, files.input, files.output, directory),
    ]


def _list_case(name: str, title: str, checkpoint: Path, in_quick: bool = True) -> Case:
    return Case(
        name=name,
        title=title,
        ours=Contender("slimtune inspect", slimtune("inspect", checkpoint, "--json")),
        peers=(
            Peer(
                "tf.train.load_checkpoint",
                python("scripts.bench.peers.list_variables", checkpoint),
                target=LIST_TARGET,
            ),
        ),
        check=same_variables,
        in_quick=in_quick,
    )


def same_variables(printed: Mapping[str, str]) -> str:
    """Compares names, dtypes and shapes that `inspect --json` and TensorFlow found."""
    ours_text, theirs_text = printed.values()
    ours = {v["name"]: [v["dtype"], v["shape"]] for v in json.loads(ours_text)["variables"]}
    theirs = json.loads(theirs_text)
    different = [
        f"{name}: {ours.get(name)} and {theirs.get(name)}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]
    if different:
        raise VerificationError(
            f"{len(different)} variables are listed differently:\n{listed(different)}"
        )
    return f"names, dtypes, shapes of {len(ours)} variables"


def _read_case(name: str, title: str, checkpoint: Path, in_quick: bool = True) -> Case:
    arguments = (str(checkpoint),)
    ours = Step("scripts.bench.groups.read_values:read_with_slimtune", arguments, repeat=3)
    theirs = Step("scripts.bench.peers.read_values:read_with_tensorflow", arguments, repeat=3)
    return Case(
        name=name,
        title=title,
        ours=Contender("checkpoints.open", ours),
        peers=(Peer("tf.train.load_checkpoint", theirs, target=READ_TARGET),),
        check=same_sum,
        in_quick=in_quick,
    )


def same_sum(printed: Mapping[str, str]) -> str:
    """Compares the sums of all values' words."""
    ours, theirs = (json.loads(text) for text in printed.values())
    if ours != theirs:
        raise VerificationError(
            "The values read are not the same.",
            expected=f"sum of words {theirs}",
            received=ours,
        )
    return "sum of all values' words"


def _freeze_case(files: Files, directory: Path) -> Case:
    ours, theirs = directory / "slimtune.pb", directory / "tensorflow.pb"
    return Case(
        name="freeze",
        title="freeze a graph and its V2 checkpoint",
        ours=Contender(
            "slimtune convert",
            slimtune(
                *("convert", files.v2, ours, "--outputs", files.output, "--overwrite", "--json")
            ),
        ),
        peers=(
            Peer(
                "freeze_graph",
                python(
                    "tensorflow.python.tools.freeze_graph",
                    f"--input_meta_graph={files.v2}.meta",
                    "--input_binary=true",
                    f"--input_checkpoint={files.v2}",
                    f"--output_node_names={files.output}",
                    f"--output_graph={theirs}",
                ),
                target=FREEZE_TARGET,
                memory_target=FREEZE_MEMORY_TARGET,
            ),
        ),
        check=near_answers("frozen", ours, theirs, files.input, files.output),
    )


def _convert_case(
    name: str, source: Path, directory: Path, version: str, in_quick: bool = True
) -> Case:
    # TensorFlow would leave one version under the name of the other.
    ours, theirs = directory / f"slimtune-{version}", directory / f"tensorflow-{version}"
    return Case(
        name=name,
        title=f"write a checkpoint of the other version as {version.upper()}",
        ours=Contender(
            "slimtune convert",
            slimtune("convert", source, ours, "--to", version, "--overwrite", "--json"),
        ),
        peers=(
            Peer(
                "tf.train.Saver",
                python("scripts.bench.peers.convert_checkpoint", source, theirs, version.upper()),
                target=CONVERT_TARGET,
            ),
        ),
        check=_same_values(ours, theirs),
        in_quick=in_quick,
    )


def _same_values(ours: Path, theirs: Path) -> Check:
    """Compares two checkpoints that were written from the same one."""

    def check(printed: Mapping[str, str]) -> str:
        import checkpoints

        found = checkpoints.diff(ours, theirs)
        if not found.is_equal:
            raise VerificationError(
                "The two checkpoints hold different variables.", received=found.as_json()
            )
        return f"values of {found.num_same} variables"

    return check
