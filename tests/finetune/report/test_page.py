import itertools
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from checkpoints.errors import RunError
from finetune.report import write_report

VOID = frozenset({"meta", "img", "br", "path", "wbr"})

VERIFICATION = {"mode": "run", "passed": True, "max_abs": 2.4e-7, "max_rel": 1e-5}
COMPARISON = {
    "what": "the same head on a <random> trunk",
    "accuracy": 0.25,
    "best_learning_rate": 0.01,
    "rows": [{"name": "trained trunk", "accuracy": 0.75}, {"name": "random", "accuracy": 0.25}],
}


class Page(HTMLParser):
    """A parsed page: its tags with attributes, its text, and whether the tags are balanced."""

    def __init__(self, text):
        super().__init__()
        self.source = text
        self.tags, self.texts, self.open, self.comments = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def handle_comment(self, data):
        self.comments.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.texts))

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def written(run, **additions):
    path = write_report(run, **additions)
    assert path == run / "report.html"
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def predictions(hostile_data):
    pictures = sorted((hostile_data.parent / "pictures").rglob("*.jpg"))[:2]
    answers = [{"label": "<b>rose</b>", "probability": 0.75}, {"label": "x", "probability": 0.25}]
    return [
        *({"path": str(path), "classes": answers} for path in pictures),
        {"path": "/gone/<i>.jpg", "classes": answers},
    ]


def test_what_was_trained_from_what_and_how_well(make_run):
    made = make_run()
    page = written(made.path)
    right = round(made.evaluation.accuracy * made.evaluation.count)
    trained = 24 - made.evaluation.count
    assert (
        "tiny, started from the checkpoint tiny.ckpt, was trained to tell 3 classes apart on "
        f"{trained} pictures of pictures: Net/Logits learned for 20 steps, the other 2 variables "
        "stayed frozen."
    ) in page.text
    assert (
        f"{made.evaluation.accuracy:.1%} accuracy on {made.evaluation.count} held-out" in page.text
    )
    assert f"{right} of {made.evaluation.count} right. 95% interval" in page.text
    assert "Trained parameters12 of 28 (42.9%)" in page.text
    assert "Frozen variables2 ✓ proved bit-equal to their start in model.ckpt-20" in page.text


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(make_run, predictions):
    page = written(
        make_run().path,
        model_verification=VERIFICATION,
        comparison=COMPARISON,
        predictions=predictions,
    )
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "a", "base", "b<"}
    for _, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "href"]
        assert attributes.get("src", "data:image/jpeg;base64,").startswith(
            "data:image/jpeg;base64,"
        )
    policy = next(a for a in page.named("meta") if "http-equiv" in a)
    assert policy["content"].startswith("default-src 'none';")
    style = page.source.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


def test_hostile_names_come_out_as_text(make_run, predictions):
    page = written(make_run().path, comparison=COMPARISON, predictions=predictions)
    for shown in (
        "<script>alert(1)<",
        "\"two\" & 'one' {{ 7 * 7 }} -->",
        "the same head on a <random> trunk",
        "<b>rose</b>",
        "/<i>.jpg",
        "A note <of> the plan.",
    ):
        assert shown in page.text
    assert "<script" not in page.source
    assert "<random>" not in page.source
    assert len(page.comments) == 1
    titles = [attributes["title"] for attributes in page.named("td") if "title" in attributes]
    assert any(title.startswith("<script>alert(1)< called") for title in titles)


def test_without_the_matrix_the_answers_give_it(make_run, predictions):
    made = make_run()
    before = written(made.path, predictions=predictions).text
    file = made.path / "evaluation.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "confusion": None}))
    assert written(made.path, predictions=predictions).text == before


def test_signs_that_hide_or_turn_text_are_made_visible(make_run):
    made = make_run()
    file = made.path / "evaluation.json"
    stored = json.loads(file.read_text())
    stored["classes"] = ["\ud800lone", "\u202egnp.exe", "nul\x00\x1b"]
    file.write_text(json.dumps(stored))
    page = written(made.path)
    for shown in ("\ufffdlone", "\ufffdgnp.exe", "nul\ufffd\ufffd"):
        assert shown in page.text
    assert "\u202e" not in page.source


def test_very_long_names_are_cut_in_the_middle(make_run):
    made = make_run()
    file = made.path / "evaluation.json"
    stored = json.loads(file.read_text())
    stored["classes"][0] = "long" * 5000
    file.write_text(json.dumps(stored))
    page = written(made.path)
    assert "long" * 30 not in page.source
    assert "…" in page.text


def test_people_who_do_not_see_get_everything(make_run, predictions):
    page = written(make_run().path, predictions=predictions)
    pictures = page.named("img")
    # Three mistakes, a right answer of each class, two predictions that are still there.
    assert len(pictures) == 3 + 3 + 2
    assert all(attributes["alt"] for attributes in pictures)
    assert page.named("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    plots = [a for a in page.named("div") if a.get("class") == "plot"]
    assert [a["role"] for a in plots] == ["img"] * 5
    assert plots[0]["aria-label"] == (
        "Loss by step: training from 2 at step 1 to 0.1 at step 20."
    )  # fmt: skip
    headings = page.named("th")
    assert all(attributes["scope"] in ("row", "col") for attributes in headings)


def test_the_matrix_and_the_classes_hold_the_counts(make_run):
    made = make_run()
    page = written(made.path)
    table = page.source.partition('<table class="matrix large">')[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>(\d*)</td>", table)
    flat = [str(count) if count else "" for count in made.evaluation.confusion().ravel()]
    assert cells == flat
    assert "Class by class" in page.text


def test_the_plan_the_options_and_the_commands_are_there(make_run, hostile_data):
    page = written(make_run().path, predictions=[{"path": "it's.jpg", "classes": []}])
    assert (
        "3 variables with 28 parameters: 2 restored from tiny.ckpt, 1 initialised, 2 frozen."
        in (page.text)
    )
    for shown in (
        "Net/Conv2d_1",
        "3 × 4",
        "1 entry of the checkpoint left out",
        "excluded-scope",
    ):
        assert shown in page.text
    assert len(page.named("details")) == 4
    assert not any("open" in attributes for attributes in page.named("details"))
    assert f"slimtune train {hostile_data} --run" in page.text
    assert "model.pb' 'it'\"'\"'s.jpg'" in page.text.replace("model.pb '", "model.pb' '")
    assert "--batch-size" in page.text


def test_the_additions_are_shown(make_run, predictions):
    page = written(
        make_run().path,
        model_verification={**VERIFICATION, "top1_agreement": 1.0},
        comparison=COMPARISON,
        predictions=predictions,
    )
    assert "✓ Verified" in page.text
    assert "same inputs, answers compared" in page.text
    assert "Largest difference2.4e-07" in page.text
    assert "Same first answer100.0%" in page.text
    assert "+50.0 points against the same head on a <random> trunk" in page.text
    assert "with the best of its learning rates (0.01)" in page.text
    assert "trained trunk 75.0%" in re.sub(r"\s*(\d+\.\d%)", r" \1", page.text)
    assert page.text.count("no picture") == 1


def test_a_failed_verification_is_said_to_have_failed(make_run):
    page = written(make_run().path, model_verification={**VERIFICATION, "passed": False})
    assert "✗ Verification failed" in page.text
    assert "✓ Verified" not in page.text


def test_changed_frozen_variables_are_said_at_the_top(make_run):
    made = make_run()
    plan = (made.path / "plan.json").read_text()
    (made.path / "plan.json").write_text(re.sub(r'"sha256": "..', '"sha256": "zz', plan))
    page = written(made.path)
    assert "2 frozen variables have changed, as in Net/Conv2d_1/weights." in page.text
    assert "proved bit-equal" not in page.text


def test_the_page_is_the_same_when_it_is_written_again(make_run, predictions):
    made = make_run()
    first = written(
        made.path,
        model_verification=VERIFICATION,
        comparison=COMPARISON,
        predictions=predictions,
    )
    assert written(made.path).source == first.source


def test_additions_of_another_state_of_the_run_are_dropped(make_run):
    made = make_run()
    assert "✓ Verified" in written(made.path, model_verification=VERIFICATION).text
    file = made.path / "evaluation.json"
    file.write_text(file.read_text() + "\n")
    assert "✓ Verified" not in written(made.path).text


@pytest.mark.parametrize("old", ["", "<html>", "<!-- slimtune-report {} -->", "\udce9"])
def test_a_page_of_another_hand_is_replaced(make_run, old):
    made = make_run()
    (made.path / "report.html").write_bytes(old.encode("utf-8", "surrogateescape"))
    assert "Fine-tuning report" in written(made.path).text


def test_a_run_that_was_not_evaluated_yet(make_run):
    made = make_run(total_steps=300, steps=300)
    (made.path / "evaluation.json").unlink()
    page = written(made.path)
    assert "This run was not evaluated yet: it is at step 20 of 300." in page.text
    assert "is being trained to tell 3 classes apart" in page.text
    assert "learns, so far for 20 of 300 steps" in page.text
    assert page.named("img") == []
    assert "Learning curves" in page.text


def test_a_run_that_has_only_begun(make_run):
    made = make_run()
    for file in made.path.iterdir():
        if file.name != "config.json":
            file.unlink()
    page = written(made.path)
    assert "No step was logged yet." in page.text
    assert "The plan" not in page.text


def test_without_its_data_the_page_goes_without_pictures(make_run, tmp_path, hostile_data):
    data = tmp_path / "data"
    shutil.copytree(hostile_data, data)
    made = make_run(data=data)
    shutil.rmtree(data)
    page = written(made.path)
    assert (
        f"The dataset {data} is no longer there: this page goes without its pictures." in page.text
    )
    assert page.named("img") == []
    assert page.text.count("no picture") == 6
    assert made.evaluation.names[0].partition("/")[2] in page.text


def test_many_pictures_of_noise_do_not_make_the_page_large(make_run, tmp_path):
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    paths = []
    for number in range(14):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(random.integers(0, 256, (400, 400, 3), np.uint8)).save(paths[-1])
    predictions = [
        {"path": str(path), "classes": [{"label": "noise", "probability": 1.0}]} for path in paths
    ]
    page = written(make_run().path, predictions=predictions)
    assert "And 2 more." in page.text
    assert len(page.source) < 500_000


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(RunError) as raised:
        write_report(tmp_path)
    assert raised.value.message == f"{tmp_path / 'config.json'} is not there."
    assert list(tmp_path.iterdir()) == []


def test_a_failed_report_leaves_the_old_one(make_run):
    made = make_run()
    write_report(made.path)
    before = (made.path / "report.html").read_bytes()
    (made.path / "plan.json").write_text("[]")
    with pytest.raises(RunError):
        write_report(made.path)
    assert (made.path / "report.html").read_bytes() == before
    assert not list(made.path.glob(".*"))


def test_neither_tensorflow_nor_matplotlib_is_loaded(make_run):
    code = (
        "import sys\n"
        "from finetune.report import write_report\n"
        "assert 'jinja2' not in sys.modules and 'PIL' not in sys.modules\n"
        "write_report(sys.argv[1])\n"
        "heavy = ('tensorflow', 'tf_slim', 'tf_keras', 'keras', 'matplotlib', 'requests')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(make_run().path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_phases_are_shown_with_what_they_brought(make_run):
    made = make_run()
    plan = json.loads((made.path / "plan.json").read_text())
    phases = [
        {"first": 0, "last": 10, "trainable": ["Net/Logits"], "learning_rate": 0.01},
        {"first": 10, "last": 20, "trainable": ["Net/Logits", "Net/<b>"], "learning_rate": 0.001},
    ]
    (made.path / "plan.json").write_text(
        json.dumps({**plan, "phases": phases, "precision": "bf16"})
    )
    page = written(made.path)
    assert "1 1–10 50.0% Net/Logits 0.01 2 11–20 62.5% +12.5 + Net/<b> 0.001" in page.text
    assert len([a for a in page.named("span") if a.get("class") == "mark" and "style" in a]) == 4
    assert "4 pictures each, in bf16" in page.text


def test_averages_that_lag_are_told(make_run):
    made = make_run()
    stored = json.loads((made.path / "evaluation.json").read_text())
    assert "lag behind" not in written(made.path).text
    stored["averages_lag"] = {"count": 9, "moving_averages": 0.25, "batch": 0.75, "is_plain": True}
    (made.path / "evaluation.json").write_text(json.dumps(stored))
    assert "Of 9 pictures 25.0% are right by them, and 75.0% by the" in written(made.path).text


def test_a_better_checkpoint_is_named(make_run):
    made = make_run()
    (made.path / "best").mkdir()
    best = made.path / "best" / "best.json"
    best.write_text(json.dumps({"step": 10, "accuracy": 0.96875}))
    assert "The best checkpoint, 96.9% on validation at step 10, is kept in best/." in (
        written(made.path).text
    )
    best.write_text(json.dumps({"step": 20, "accuracy": made.evaluation.accuracy}))
    assert "The best checkpoint" not in written(made.path).text
