import os
import subprocess
from pathlib import Path

import pytest

from checkpoints.command_lines import path_word, shell_words


@pytest.mark.parametrize(
    ("path", "word"),
    [("-run", "./-run"), ("./-run", "./-run"), ("--json", "./--json"), ("run", "run"), ("a b", "a b")],
)  # fmt: skip
def test_no_path_is_taken_for_an_option(path, word):
    assert path_word(Path(path)) == word


def test_words_are_quoted_where_a_shell_needs_it():
    assert shell_words("slimtune", "convert", Path("-my run"), "--labels", Path("l$.txt")) == (
        "slimtune convert './-my run' --labels 'l$.txt'"
    )


@pytest.mark.parametrize("name", ["a\x1b[31m\nb", "s\udcff.png", "it's\\\t", "花 b", "\x7fa"])
def test_names_that_cannot_be_typed_are_escaped_for_the_shell(name):
    words = shell_words("printf", "%s", Path(name))
    assert words.isprintable()
    done = subprocess.run(["bash", "-c", words], check=True, capture_output=True)
    assert done.stdout == os.fsencode(name)
