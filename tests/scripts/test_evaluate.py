import json

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def run(colour_model, tmp_path):
    run = colour_model.begin_run(tmp_path / "run", 20)
    colour_model.save(run, 10, weights=np.eye(3, dtype=np.float32))
    colour_model.end(run, 20)
    return run


def test_programs_get_every_figure(slimtune, run, colours):
    code, out, _ = slimtune("evaluate", run, colours, "--json")
    value = json.loads(out)
    assert code == 0
    assert value.keys() == {
        "model",
        "data",
        "split",
        "step",
        "count",
        "accuracy",
        "accuracy_interval",
        "top5",
        "classes",
        "per_class",
        "confusion",
        "calibration",
        "mistakes",
        "statistics",
        "averages_lag",
    }
    assert (value["accuracy"], value["count"], value["step"], value["top5"]) == (1.0, 16, 20, None)
    assert sum(map(sum, value["confusion"])) == 16


def test_people_get_a_table_and_the_surest_mistakes(slimtune, run, colours):
    code, out, _ = slimtune("evaluate", run / "model.ckpt-10", colours)
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == [
        "class",
        "pictures",
        "precision",
        "recall",
        "95",
        "%",
        "interval",
        "F1",
    ]
    assert [line.split()[0] for line in lines[1:4]] == ["blue", "green", "red"]
    assert any("called red" in line for line in lines)
    assert any(line.startswith("  blue/") and "red" in line for line in lines)
    assert f"{run}/model.ckpt-10 at step 10: accuracy " in out
    assert "on 16 pictures of val." in out


def test_watching_gives_a_line_a_checkpoint_and_programs_a_list(slimtune, run, colours):
    code, out, err = slimtune("evaluate", run, colours, "--watch", "--json")
    value = json.loads(out)
    assert code == 0
    assert [found["step"] for found in value["results"]] == [10, 20]
    assert (value["ended"], value["skipped"]) == ("finished", [])
    assert f"{run} at step 10: accuracy " in err
    code, out, _ = slimtune("evaluate", run, colours, "--watch")
    assert [line.split(":")[0] for line in out.splitlines()] == [
        f"{run} at step 10",
        f"{run} at step 20",
        "The training is finished; best at step 20",
    ]


def test_waiting_options_without_watching_are_wrong_usage(slimtune, run, colours):
    code, _, err = slimtune("evaluate", run, colours, "--timeout", 5)
    assert code == 2
    assert "go with --watch" in err


def test_swapped_words(slimtune, run, colours):
    for words in (("evaluate", colours, run), ("compare", colours, run)):
        code, out, _ = slimtune(*words, "--json")
        assert code == 2
        assert json.loads(out)["error"]["next"] == f"Name {run} first, then {colours}."


def test_a_class_may_have_any_name(slimtune, colour_model, colours, tmp_path):
    # Rich would take it for a style.
    colour_model.classes = ("[red]blue[/red]", "green", "red")
    path = colour_model.write_pb(tmp_path / "m.pb")
    code, _, err = slimtune("evaluate", path, colours)
    assert code == 1
    assert "[red]blue[/red]" in err


def test_the_next_command_fits_the_model(
    slimtune, run, colour_model, colours, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    colour_model.write_pb(tmp_path / "-m.pb")
    _, out, _ = slimtune("evaluate", "./-m.pb", colours)
    assert out.endswith("Next: slimtune predict ./-m.pb PICTURE.jpg\n")
    _, out, _ = slimtune("evaluate", run, colours)
    assert out.endswith(f"Next: slimtune convert {run} model.pb\n")
