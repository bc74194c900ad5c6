"""Commands killed (SIGKILL): what lies there is the old, the new or none, and a rerun completes."""

from __future__ import annotations

import pytest

RANDOM_KILLS = 25
SOME = 6


def test_killed_before_some_changes(try_writing, scene, over):
    trial = try_writing(scene, over)
    last = len(trial.whole.moments) - 1
    for moment in sorted({round(part * last / (SOME - 1)) for part in range(SOME)}):
        trial.kill_at(moment)
    assert not list(trial.folder.glob("**/*.partial*"))


@pytest.mark.long
def test_killed_before_each_change_and_at_random_moments(try_writing, scene, over, count_kills):
    trial = try_writing(scene, over)
    for moment in range(len(trial.whole.moments)):
        trial.kill_at(moment)
    trial.kill_at_random(RANDOM_KILLS)
    count_kills(len(trial.whole.moments), RANDOM_KILLS)
    assert not list(trial.folder.glob("**/*.partial*"))
