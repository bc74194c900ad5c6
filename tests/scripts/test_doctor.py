import json

import pytest

from scripts.commands import doctor
from scripts.main import main

pytestmark = pytest.mark.tensorflow


def run(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--json"])
    return stop.value.code, json.loads(capsys.readouterr().out)


def test_it_says_what_is_installed_and_what_works(capsys):
    code, value = run(capsys)
    assert code == 0
    assert value["ok"] is True
    assert value["machine"]["versions"]["tensorflow"].startswith("2.21.")
    details = {check["name"]: check["detail"] for check in value["checks"]}
    assert details["tf-slim"] == "builds Inception-v3 with 388 variables"
    assert "dev" not in value["extras"]


def test_what_fails_is_said_and_the_exit_code_is_1(capsys, monkeypatch):
    def broken():
        raise RuntimeError("no such thing here")

    monkeypatch.setattr(doctor, "CHECKS", {"sample": lambda: "fine", "cache": broken})
    code, value = run(capsys)
    assert code == 1
    assert value["checks"] == [
        {"name": "sample", "ok": True, "detail": "fine"},
        {"name": "cache", "ok": False, "detail": "RuntimeError: no such thing here"},
    ]
