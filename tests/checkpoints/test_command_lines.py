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
