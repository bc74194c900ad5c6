"""The plot is a PNG that grows with the cases and shows what was measured."""

from __future__ import annotations

import numpy as np
from PIL import Image

from scripts.bench.plot import MEMORY_COLOUR, TARGET_COLOUR, TIME_COLOUR, write_plot


def pixels_of(path, colour):
    wanted = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    with Image.open(path) as picture:
        values = np.asarray(picture.convert("RGB"), dtype=int)
    return int((np.abs(values - wanted).max(axis=-1) <= 2).sum())


def test_the_plot_is_a_png_with_bars_and_targets(report, tmp_path):
    path = tmp_path / "bench.png"
    write_plot(report, path)
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        width, height = picture.size
    assert width == 1500
    assert 500 < height < 1000
    assert 10_000 < path.stat().st_size < 300_000
    assert pixels_of(path, TIME_COLOUR) > 10_000
    assert pixels_of(path, MEMORY_COLOUR) > 10_000
    assert pixels_of(path, TARGET_COLOUR) > 500


def test_more_cases_make_a_taller_plot(report, tmp_path):
    write_plot(report, tmp_path / "three.png")
    report.cases = [*report.cases, *report.cases]
    write_plot(report, tmp_path / "six.png")
    with Image.open(tmp_path / "three.png") as three, Image.open(tmp_path / "six.png") as six:
        assert six.height > three.height + 300
        assert six.width == three.width


def test_where_everything_failed_the_plot_has_no_bars(report, tmp_path):
    path = tmp_path / "bench.png"
    report.cases = [report.cases[2]]
    write_plot(report, path)
    legend = 2_000  # the patches that explain the colours
    assert pixels_of(path, TIME_COLOUR) < legend
    assert pixels_of(path, MEMORY_COLOUR) < legend
