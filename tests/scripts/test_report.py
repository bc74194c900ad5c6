import json

import pytest

from scripts.main import main


@pytest.fixture
def run(capsys):
    """Types a command; gives (exit code, stdout, stderr)."""

    def type_(*words):
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        captured = capsys.readouterr()
        return stopped.value.code, captured.out, captured.err

    return type_


@pytest.fixture
def begun(tmp_path):
    """A run that has only begun: no step, no data."""
    directory = tmp_path / "runs" / "first try"
    directory.mkdir(parents=True)
    stored = {"data": str(tmp_path / "gone"), "run": str(directory), "steps": 5, "total_steps": 5}
    (directory / "config.json").write_text(json.dumps(stored))
    return directory


def test_the_page_is_written_and_its_path_printed(run, begun, tmp_path):
    code, out, err = run("report", str(begun))
    assert (code, out) == (0, f"{begun / 'report.html'}\n")
    assert err == (
        f"The dataset {tmp_path / 'gone'} is no longer there: the report goes without its "
        "pictures.\n"
    )
    assert (begun / "report.html").read_text(encoding="utf-8").endswith("</html>\n")


def test_programs_get_one_object(run, begun):
    code, out, _ = run("report", str(begun), "--json")
    page = begun / "report.html"
    assert code == 0
    assert json.loads(out) == {
        "run": str(begun),
        "report": str(page),
        "bytes": page.stat().st_size,
    }


def test_what_is_no_run_is_refused(run, tmp_path):
    code, out, err = run("report", str(tmp_path), "--json")
    assert code == 1
    assert json.loads(out)["error"]["type"] == "RunError"
    assert "config.json is not there" in err
    assert list(tmp_path.iterdir()) == []


def test_help_shows_an_example(run):
    code, out, _ = run("report", "--help")
    assert code == 0
    assert "slimtune report runs/flowers" in out


@pytest.mark.tensorflow
def test_an_export_is_held_against_its_run(run, colour_model, colours, tmp_path):
    directory = colour_model.begin_run(tmp_path / "colours-run", 20)
    colour_model.end(directory, 20)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "data": str(colours)}))
    (directory / "plan.json").unlink()
    evaluation = json.loads(run("evaluate", str(directory), str(colours), "--json")[1])
    stored = {name: evaluation[name] for name in ("split", "step", "classes", "confusion", "top5")}
    (directory / "evaluation.json").write_text(json.dumps(stored))
    model = colour_model.write_pb(tmp_path / "m.pb")
    code, out, _ = run("report", str(directory), "--model", str(model))
    assert code == 0
    assert f"{model}: 100.0% of 16 first answers as the run's" in out
    assert "run on the evaluated pictures" in (directory / "report.html").read_text("utf-8")
    other = colour_model.write_pb(tmp_path / "n.pb", weights=[[0.0] * 3] * 3)
    code, out, _ = run("report", str(directory), "--model", str(other), "--json")
    assert code == 1
    assert json.loads(out)["verification"]["passed"] is False
