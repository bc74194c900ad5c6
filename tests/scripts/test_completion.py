"""slimtune completion, and what a shell gets that uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

PROGRAM = """
import atexit, sys
heavy = ("tensorflow", "matplotlib", "PIL", "rich")
atexit.register(lambda: sys.stderr.write(" ".join(m for m in heavy if m in sys.modules)))
from scripts.main import main
main()
"""


def completed(line, shell="bash"):
    """What the shell is told at the end of a line, and which heavy modules that took."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "_SLIMTUNE_COMPLETE": f"{shell}_complete",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines(), done.stderr


def test_a_verb_is_completed_and_nothing_heavy_is_loaded():
    assert completed("slimtune con") == (["plain,convert"], "")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("slimtune convert --keep-v", ["plain,--keep-variables"]),
        ("slimtune convert --verify s", ["plain,structure"]),
        ("slimtune data b", ["plain,build"]),
        ("slimtune completion f", ["plain,fish"]),
        ("slimtune classic freeze_graph --clear", ["plain,--clear_devices"]),
        (
            "slimtune train --net mobilenet_v1_02",
            ["file,mobilenet_v1_02", "plain,mobilenet_v1_025"],
        ),
        ("slimtune train d --checkpoint vgg_16", ["file,vgg_16", "plain,vgg_16"]),
        ("slimtune train d --checkpoint ./a", ["file,./a"]),
        ("slimtune evaluate r d --preprocessing i", ["plain,inception"]),
        ("slimtune convert r m --to pb", ["plain,pb", "plain,pbtxt"]),
        ("slimtune download inception_v4", ["plain,inception_v4"]),
        ("slimtune inspect mo", ["file,mo"]),
        ("slimtune classic train_image_classifier --model_name vgg_16", ["plain,vgg_16"]),
        ("slimtune classic train_image_classifier --model_name=vgg_16", ["plain,vgg_16"]),
        ("slimtune classic train_image_classifier --model_name = vgg_16", ["plain,vgg_16"]),
        (
            "slimtune classic train_image_classifier --model_name = vgg_16 --optimizer = f",
            ["plain,ftrl"],
        ),
        ("slimtune classic freeze_graph --input_graph ", ["file,"]),
    ],
)
def test_options_words_and_verbs_of_groups(line, found):
    assert completed(line) == (found, "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_for_completions_of_its_shell(slimtune, shell):
    code, out, err = slimtune("completion", shell)
    assert (code, err) == (0, "")
    assert f"_SLIMTUNE_COMPLETE={shell}_complete" in out
    assert out.endswith("\n") and "\\t" not in out
    code, printed, _ = slimtune("completion", shell, "--json")
    assert code == 0
    assert json.loads(printed) == {"shell": shell, "script": out}


def test_bash_takes_the_script(slimtune):
    _, out, _ = slimtune("completion", "bash")
    subprocess.run(["bash", "--norc", "-n"], input=out, text=True, check=True)


def test_another_shell_is_wrong_usage(slimtune):
    code, out, err = slimtune("completion", "tcsh")
    assert (code, out) == (2, "")
    assert "this directory" not in slimtune("completion", "")[2]
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'." in err
