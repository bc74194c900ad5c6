"""Processes that cannot come together end, and say why."""

import pytest

from checkpoints.errors import RunError
from finetune.workers import workers as modules
from finetune.workers.cluster import Cluster
from finetune.workers.workers import Workers


class EndedError(Exception):
    pass


def test_who_waits_for_a_first_word_in_vain_ends_with_the_list(monkeypatch, capsys):
    def ended(status):
        raise EndedError(status)

    monkeypatch.setattr(modules.os, "_exit", ended)
    waiting = Workers(Cluster(("a:1", "b:2"), 0))
    with pytest.raises(EndedError, match=str(RunError("x").exit_code)):
        waiting._give_up_meeting()
    said = capsys.readouterr().err
    assert said.startswith("Error: All 2 processes answer, and yet they do not come together.\n")
    assert "Received: a:1, b:2\nNext: Give every process the same --hosts" in said
