"""A run whose baseline failed: it is measured again when the cause is mended, and hides no other run."""

import shutil

import pytest

from loopty.domain.trial import Verdict

BROKEN = "echo the network is down >&2; exit 3\n"


@pytest.fixture
def broken_place(code_place):
    """A task whose benchmark fails, and its own benchmark, which works."""
    shutil.copy(code_place.top / "bench.sh", code_place.top.parent / "bench.sh")
    code_place.write("bench.sh", BROKEN)
    code_place.commit()
    return code_place


def mend(place) -> None:
    shutil.copy(place.top.parent / "bench.sh", place.top / "bench.sh")


def test_optimize_measures_a_baseline_that_failed_again_without_being_told(broken_place):
    broken_place.loopty("optimize", "--quiet", code=1)
    (broken_place.top / "src/x.txt").write_text("6\n")  # not part of the criteria
    broken_place.loopty("optimize", "--quiet", code=1)
    assert broken_place.json("status")["run"] == 2
    mend(broken_place)
    broken_place.loopty("optimize", "--quiet")
    history = broken_place.history()
    assert [history[str(run)].verdict for run in history.runs] == [
        Verdict.DISCARDED,
        Verdict.DISCARDED,
        Verdict.KEPT,
    ]
    assert history.score(history["3"]) == 6


def test_a_draft_below_a_baseline_that_failed_runs_below_the_mended_one(broken_place):
    broken_place.loopty("new", "-m", "seven is more")
    (broken_place.top / ".loopty/drafts/1.1/src/x.txt").write_text("7\n")
    refused = broken_place.loopty("run", "1.1", code=2)
    assert "then run `loopty run @2` again" in refused.stderr
    again = broken_place.loopty("run", "1.1", code=1)
    assert "run 2 measures the baseline again" in again.stderr
    assert again.stdout.startswith("@3 discarded")
    mend(broken_place)
    done = broken_place.loopty("run", "1.1")
    assert "@2 is @5 now" in done.stderr
    assert done.stdout.startswith("@5 kept: better: score 7 against 5 of @4")
    history = broken_place.history()
    assert history["3.1"].summary == "seven is more"
    assert history["1.1"].dropped
    assert not list((broken_place.top / ".loopty/drafts").iterdir())
    assert "@2 was dropped" in broken_place.loopty("run", "1.1", code=2).stderr
    assert list(broken_place.history().runs) == [1, 2, 3]


def test_a_draft_that_conflicts_with_the_mended_files_says_so_and_stays(broken_place):
    broken_place.loopty("new")
    (broken_place.top / ".loopty/drafts/1.1/src/x.txt").write_text("7\n")
    broken_place.loopty("run", "1.1", code=2)
    mend(broken_place)
    (broken_place.top / "src/x.txt").write_text("6\n")
    refused = broken_place.loopty("run", "1.1", code=2)
    assert "@2 is @4 now, and conflicts with the new baseline in src/x.txt" in refused.stderr
    (broken_place.top / ".loopty/drafts/2.1/src/x.txt").write_text("8\n")
    assert "kept: better: score 8 against 6 of @3" in broken_place.loopty("run", "2.1").stdout


def test_run_1_measures_a_baseline_that_failed_again(broken_place):
    broken_place.loopty("run", "1", code=1)
    mend(broken_place)
    done = broken_place.loopty("run", "1")
    assert "run 2 measures the baseline again: run 1 has no result" in done.stderr
    assert done.stdout.startswith("@2 kept")
    assert "@2 has its verdict" in broken_place.loopty("run", "1", code=2).stderr


def test_a_run_without_a_result_hides_no_older_one_and_is_not_continued(code_place):
    shutil.copy(code_place.top / "bench.sh", code_place.top.parent / "bench.sh")
    code_place.loopty("run", "1")
    code_place.write("bench.sh", BROKEN)
    code_place.loopty("optimize", "--quiet", code=1)
    for verb in ("best", "tree", "status"):
        done = code_place.loopty(verb)
        assert "run 2 has no result, so this is run 1" in done.stderr, verb
        assert done.stdout == code_place.loopty(verb, "--run", "1").stdout
        assert "has no result, so this" not in code_place.loopty(verb, "--run", "1").stderr
    assert code_place.json("show", "best")["id"] == "1"
    assert code_place.json("status", "--run", "2")["without_baseline"]
    mend(code_place)
    code_place.loopty("optimize", "--quiet")
    assert list(code_place.history().runs) == [1, 2]
    assert code_place.history()["1"].children
