"""What can be said of a net that is not registered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetOptions:
    """Options of `--net FILE` and `--net module:function`; None: to be found out. Registered nets take
    the last two.

    Attributes:
      bottleneck: tensor that feeds the new head, of a file.
      input: tensor that takes the pictures, of a file.
      preprocessing: how pictures become the input.
      image_size: height and width of the pictures, in pixels.
    """

    bottleneck: str | None = None
    input: str | None = None
    preprocessing: str | None = None
    image_size: int | None = None

    def given(self) -> list[str]:
        """Flags that belong to such nets alone, as far as they were given."""
        flags = {
            "--bottleneck": self.bottleneck,
            "--input": self.input,
            "--preprocessing": self.preprocessing,
        }
        return [flag for flag, value in flags.items() if value is not None]
