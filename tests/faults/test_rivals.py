"""Two commands write one output at the same time: one of the two whole, and nothing beside it."""

from __future__ import annotations

STOPS = 6


def test_two_write_one_output(try_writing, leftovers, scene, over):
    """One is stopped before a change, the other, of other content where both may replace what is
    there, runs meanwhile, and then the first goes on.
    """
    trial = try_writing(scene, over)
    last = len(trial.whole.moments) - 1
    for moment in sorted({round(part * last / (STOPS - 1)) for part in range(STOPS)}):
        trial.begin_from_before()
        ended = trial.run(at=moment, fault="stop", rival=trial.words(1 if over else 2))
        said = (ended.status, ended.rival)
        # A download that another did is not done again; else one of two that may not replace
        # anything is refused.
        assert said in ((0, 0), (0, 1), (1, 0)), (ended.stderr, ended.rival_said)
        assert said == (0, 0) or not over, (ended.stderr, ended.rival_said)
        if said != (0, 0):
            assert "already there" in ended.stderr + ended.rival_said
        assert "Traceback" not in ended.rival_said
        assert trial.is_whole()
        assert leftovers(trial.folder) == []
