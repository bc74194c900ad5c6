"""Growth: how exponents are reckoned, what tables say, and the jobs themselves at a small size."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from PIL import Image

import checkpoints
import exporters
from scripts.bench.growth import __main__ as command
from scripts.bench.growth import files
from scripts.bench.growth.axes import AXES, Axis
from scripts.bench.growth.measure import Growth, exponent, measure
from scripts.bench.growth.show import format_size, markdown_table, write_plot
from scripts.bench.process import ProgramError

SIZES = (100, 1_000, 10_000, 100_000)


@pytest.mark.parametrize(
    ("power", "costs"),
    [
        (1.0, [0.2 + 1e-4 * size for size in SIZES]),
        (2.0, [3.0 + 1e-9 * (size - 100) ** 2 for size in SIZES]),
        (None, [0.2, 0.21, 0.19, 0.25]),
        (None, [0.2, 9.0, 9.0, 0.1]),
    ],
)
def test_the_exponent_leaves_out_what_each_start_costs(power, costs):
    found = exponent(SIZES, costs, 0.1)
    assert found == (None if power is None else pytest.approx(power))


def test_two_sizes_do_not_tell_how_cost_grows():
    assert exponent((10, 100), (1.0, 9.0), 0.1) is None


@pytest.fixture
def growths():
    sizes = (10**7, 10**8, 10**9)
    return [
        Growth("inspect", sizes, (0.2, 0.2, 0.2), (40 * 10**6,) * 3),
        Growth("verify", sizes, (0.1, 0.19, 1.09), (40 * 10**6, 50 * 10**6, 150 * 10**6)),
        Growth("convert", sizes[:2], (0.1, 0.3), (10**7, 10**7)),
    ]


def test_a_row_a_job(growths):
    axis = next(axis for axis in AXES if axis.name == "bytes")
    assert markdown_table(axis, growths).splitlines() == [
        "| bytes | 10 MB | 100 MB | 1 GB | time grows | memory grows |",
        "|---|---:|---:|---:|---:|---:|",
        "| inspect | 200 ms, 40 MB | 200 ms, 40 MB | 200 ms, 40 MB | flat | flat |",
        "| verify | 100 ms, 40 MB | 190 ms, 50 MB | 1.09 s, 150 MB | 1.00 | 1.00 |",
        "| convert | 100 ms, 10 MB | 300 ms, 10 MB |  | flat | flat |",
    ]
    assert format_size(10_000, "nodes") == "10,000"


def test_the_plot_is_a_small_png(growths, tmp_path):
    axis = next(axis for axis in AXES if axis.name == "bytes")
    write_plot(axis, growths, tmp_path / "bytes.png")
    with Image.open(tmp_path / "bytes.png") as picture:
        assert (picture.format, picture.size) == ("PNG", (900, 360))
    assert (tmp_path / "bytes.png").stat().st_size < 60_000


def test_what_is_made_has_the_size_that_it_is_for(tmp_path):
    files.variables(tmp_path, 100)
    files.bytes_(tmp_path, 10**7)
    files.nodes(tmp_path, 100)
    files.classes(tmp_path, 3)
    with checkpoints.open(tmp_path / "v2.ckpt") as saved:
        assert len(saved) == 100
    large = tmp_path / "large.ckpt.data-00000-of-00001"
    assert large.stat().st_size == 10**7
    assert sum(exporters.inspect(tmp_path / "graph.pb").ops.values()) == 93
    assert exporters.inspect(tmp_path / "graph.pb").ops["FusedBatchNormV3"] == 7
    pictures = list((tmp_path / "pictures").rglob("*.jpg"))
    assert len({path.read_bytes() for path in pictures}) == len(pictures) == 6


def test_a_sparse_checkpoint_takes_no_room(tmp_path):
    files.bytes_(tmp_path, 10**10)
    with checkpoints.open(tmp_path / "large.ckpt") as saved:
        assert sum(variable.shape[0] for variable in saved.variables.values()) == 10**10 // 4
        assert sum(path.stat().st_blocks * 512 for path in saved.family.files) < 1 << 20


def test_sizes_grow_tenfold_and_cover_what_is_promised():
    promised = {
        "variables": (100, 100_000),
        "bytes": (10**7, 10**10),
        "nodes": (1_000, 100_000),
        "pictures": (1_000, 100_000),
        "classes": (100, 10_000),
    }
    assert {axis.name: (axis.sizes[0], axis.sizes[-1]) for axis in AXES} == promised
    for axis in AXES:
        assert all(b == 10 * a for a, b in zip(axis.sizes, axis.sizes[1:], strict=False))


def test_jobs_of_graphs_run(tmp_path):
    """The smallest size, made smaller still: every command line of the axis is a right one."""
    axis = next(axis for axis in AXES if axis.name == "nodes")
    small = Axis(axis.name, axis.unit, (100,), axis.make, axis.jobs)
    found = measure(small)
    assert [growth.job for growth in found] == ["inspect", "thaw", "freeze", "fold", "diff"]
    assert all(growth.seconds[0] > 0 and growth.peak_bytes[0] > 10**7 for growth in found)


def test_an_axis_that_is_not_there_is_told(tmp_path):
    result = CliRunner().invoke(command.main, ["weight", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "there are variables, bytes, nodes, pictures, classes" in result.output


def test_files_of_an_axis(tmp_path, monkeypatch, growths):
    monkeypatch.setattr(command, "measure", lambda axis, largest: growths)
    result = CliRunner().invoke(command.main, ["bytes", "--out", str(tmp_path / "growth")])
    assert result.exit_code == 0
    assert sorted(path.name for path in (tmp_path / "growth").iterdir()) == [
        "bytes.json",
        "bytes.md",
        "bytes.png",
    ]
    told = json.loads((tmp_path / "growth" / "bytes.json").read_text("utf-8"))
    assert [job["time_exponent"] is None for job in told["jobs"]] == [True, False, True]


def test_a_job_that_fails_is_told(tmp_path):
    axis = next(axis for axis in AXES if axis.name == "nodes")
    broken = Axis("nodes", "nodes", (100,), AXES[0].make, axis.jobs)
    with pytest.raises(ProgramError, match=r"graph\.pb"):
        measure(broken)
