"""Protobuf's text form, as .pbtxt files and the file `checkpoint` have it."""

from __future__ import annotations

import warnings
from typing import Any

from google.protobuf import text_format


def fill_from_text(message: Any, text: str, *, allow_unknown_fields: bool = False) -> str | None:
    """Fills a message; returns what is wrong with the text, or None."""
    try:
        with warnings.catch_warnings():
            # Python finds fault with an unknown escape, as in "\\m", which stands for itself.
            warnings.simplefilter("ignore")
            text_format.Parse(text, message, allow_unknown_field=allow_unknown_fields)
    except text_format.ParseError as error:
        return f"line and column {error}"
    except ValueError:
        return "a value that its field cannot hold"
    except RecursionError:
        return "messages inside messages, too deep to be read"
    return None
