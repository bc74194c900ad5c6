"""Text on pictures in as many scripts as the fonts at hand have.

DejaVu Sans comes with matplotlib and has Latin, Greek, Cyrillic, Arabic and Hebrew letters
and many signs, but no Chinese, Japanese or Korean and no Indic scripts. For what it lacks,
fonts of the system are tried; a character that none has is written as U+XXXX. Letters are
not joined as Arabic and Indic scripts want it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

_WIDE_FONTS = (
    "notosanscjk",
    "notoserifcjk",
    "sourcehansans",
    "wqy",
    "droidsansfallback",
    "arialuni",
    "pingfang",
    "hiraginosans",
    "stheiti",
    "msyh",
    "msgothic",
    "malgun",
    "nanumgothic",
    "notosans",
    "unifont",
)
"""Parts of the file names of fonts that have what DejaVu lacks, the likelier first."""

_TRIED_FONTS = 40


class SheetFont:
    """Draws text, changing the font from character to character where it must.

    Attributes:
      missing: characters that no font had.
    """

    def __init__(self) -> None:
        """Nothing is loaded before the first text."""
        self.missing: set[str] = set()

    def width(self, text: str, size: int) -> int:
        """Of the text in pixels."""
        return round(sum(font.getlength(part) for part, font in self._runs(text, size)))

    def draw(
        self,
        draw: ImageDraw,
        corner: tuple[int, int],
        text: str,
        size: int,
        colour: tuple[int, int, int],
        room: int,
    ) -> None:
        """Draws one line from its upper left corner; what does not fit ends in "…"."""
        shown = " ".join(text.split("\n"))
        if self.width(shown, size) > room:
            while shown and self.width(shown + "…", size) > room:
                shown = shown[:-1]
            shown += "…"
        left = float(corner[0])
        # One baseline for all fonts of the line.
        baseline = corner[1] + size
        for part, font in self._runs(shown, size):
            draw.text((left, baseline), part, colour, font, anchor="ls")
            left += font.getlength(part)

    def _runs(self, text: str, size: int) -> list[tuple[str, FreeTypeFont]]:
        runs: list[tuple[str, FreeTypeFont]] = []
        for character in text:
            path = _font_for(character)
            shown = character
            if path is None:
                self.missing.add(character)
                path, shown = _dejavu(), f"U+{ord(character):04X}"
            font = _load(path, size)
            if runs and runs[-1][1] is font:
                runs[-1] = (runs[-1][0] + shown, font)
            else:
                runs.append((shown, font))
        return runs


@functools.cache
def _dejavu() -> Path:
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"


@functools.cache
def _other_fonts() -> tuple[Path, ...]:
    from matplotlib import font_manager

    ranked: list[tuple[int, str]] = []
    for name in font_manager.findSystemFonts():
        plain = Path(name).stem.lower().replace("-", "").replace("_", "").replace(" ", "")
        ranks = [rank for rank, part in enumerate(_WIDE_FONTS) if part in plain]
        if ranks:
            ranked.append((ranks[0], name))
    return tuple(Path(name) for _, name in sorted(ranked)[:_TRIED_FONTS])


@functools.cache
def _face(path: Path) -> Any:
    from matplotlib.ft2font import FT2Font

    return FT2Font(str(path))


@functools.cache
def _font_for(character: str) -> Path | None:
    """The first font that has the character."""
    if _has(_dejavu(), character):
        return _dejavu()
    return next((path for path in _other_fonts() if _has(path, character)), None)


def _has(path: Path, character: str) -> bool:
    try:
        return bool(_face(path).get_char_index(ord(character)))
    except (OSError, RuntimeError):
        return False


@functools.cache
def _load(path: Path, size: int) -> FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.truetype(str(path), size)
