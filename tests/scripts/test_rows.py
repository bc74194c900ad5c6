import io

import pytest
from rich.console import Console

from scripts.rows import Rows

HOSTILE = ("[bold]red[/]", "\x1b[31mred", "two\nlines", "\u202eevil", "日本語")


def printed(rows: Rows, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(rows)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def make(*names: str) -> Rows:
    rows = Rows("class", "pictures", "recall", texts=("class",))
    for number, name in enumerate(names):
        rows.add(name, str(number), "95.0%")
    return rows


def test_numbers_stand_to_the_right_of_texts():
    assert printed(make("rose", "tulip"), 40) == [
        "class  pictures  recall",
        "rose          0   95.0%",
        "tulip         1   95.0%",
    ]


def test_a_long_text_takes_lines_and_numbers_stay_whole():
    assert printed(make("x" * 40), 40) == [
        "class                   pictures  recall",
        "xxxxxxxxxxxxxxxxxxxxxx         0   95.0%",
        "xxxxxxxxxxxxxxxxxx",
    ]


def test_a_narrow_terminal_gets_a_paragraph_a_row():
    rows = Rows("label", "class", "train", "average precision", texts=("class",))
    rows.add("0", "rose", "1,000", "0.950")
    rows.add("", "in all", "1,000", "")
    assert printed(rows, 30) == [
        "rose",
        "  label 0, train 1,000,",
        "  average precision 0.950",
        "in all",
        "  train 1,000",
    ]


@pytest.mark.parametrize("width", [20, 80])
def test_names_neither_steer_the_terminal_nor_mean_a_style(width):
    text = "\n".join(printed(make(*HOSTILE), width))
    for name in ("[bold]red[/]", "\\x1b[31mred", "two\\nlines", "\\u202eevil", "日本語"):
        assert name in text
    assert "\x1b" not in text
