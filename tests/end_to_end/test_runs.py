"""A new run starts only when results would not be comparable."""

import pytest

from loopty.domain.trial import Verdict

TASK = """
statement = "more"
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
[objective]
direction = "max"
[access]
write = ["src/**"]
[limits]
memory_mb = 500
[pools]
attempts = 2
[proposer]
kind = "mutate"
"""
NOT_COMPARABLE = {
    "the direction": ('direction = "max"', 'direction = "min"'),
    "the benchmark's command": ("sh bench.sh", "sh ./bench.sh"),
    "the timeout": ("timeout_seconds = 20", "timeout_seconds = 21"),
    "what may be written": ('write = ["src/**"]', 'write = ["src/**", "lib/**"]'),
    "the limits": ("memory_mb = 500", "memory_mb = 600"),
}
COMPARABLE = {
    "the statement": ('"more"', '"more, please"'),
    "the pools": ("attempts = 2", "attempts = 3\npatience = 30"),
    "the target": ("attempts =", "target = 1000\nattempts ="),
    "the proposer": ('kind = "mutate"', 'kind = "mutate"\nparents = "root"'),
    "the width": ('statement = "more"', 'statement = "more"\nwidth = 2'),
}


@pytest.fixture
def begun(code_place):
    """A repository in its first run."""
    code_place.write("loopty.toml", TASK)
    code_place.commit()
    assert code_place.json("new")["node"] == "1.1"
    return code_place


def changed(place, old: str, new: str) -> None:
    assert old in TASK
    place.write("loopty.toml", TASK.replace(old, new))


def test_a_change_to_the_criteria_starts_a_new_run_with_a_message(begun):
    for number, what in enumerate(NOT_COMPARABLE, start=2):
        changed(begun, *NOT_COMPARABLE[what])
        done = begun.loopty("new")
        assert done.stdout.rstrip().endswith(f"/drafts/{number}.1"), what
        assert "have changed" in done.stderr
        assert f"this is run {number}" in done.stderr


def test_a_change_to_a_file_of_the_benchmark_starts_a_new_run(begun):
    begun.write("bench.sh", 'echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"\n')
    assert begun.json("new")["node"] == "2.1"


def test_no_other_change_starts_a_new_run(begun):
    for number, what in enumerate(COMPARABLE, start=2):
        changed(begun, *COMPARABLE[what])
        done = begun.loopty("new", "--parent", "1")
        assert done.stdout.rstrip().endswith(f"/drafts/1.{number}"), what
    begun.write("README.md", "# Read me\n")
    done = begun.loopty("new")
    assert "/drafts/1." in done.stdout
    assert "--new-run starts from them" in done.stderr


@pytest.fixture
def won(begun):
    """Its best node says 9 in the untouched file's place of 5."""
    begun.write("src/other.txt", "\n".join("abcdefgh"))
    (begun.top / ".loopty/drafts/1.1/src/x.txt").write_text("9\n")
    begun.loopty("run", "1")
    begun.loopty("run", "1.1")
    return begun


def test_a_new_run_says_what_changed_and_measures_the_best_of_the_run_before_first(won):
    won.write("src/other.txt", "mine\n")
    changed(won, *NOT_COMPARABLE["the timeout"])
    output = won.loopty("optimize", "--quiet").stderr
    assert "the criteria have changed (benchmark.timeout_seconds)" in output
    assert "@2 of run 1 is carried over, as @4: it is measured first" in output
    history = won.history()
    assert (history.score(history["2.1"]), history["2.1"].verdict) == (9, Verdict.KEPT)
    assert any(node.is_within("2.1") and node != "2.1" for node in history.ids), "the search builds on it"
    files = won.git("show", f"{history['2.1'].commit}:src/other.txt", f"{history['2.1'].commit}:src/x.txt")
    assert files == "mine\n9\n", "what the user changed since stays"
    won.write("bench.sh", (won.top / "bench.sh").read_text() + "true\n")
    assert "have changed (bench.sh)" in won.loopty("optimize", "--quiet").stderr


def test_the_user_names_what_a_new_run_starts_from(won):
    assert "run 1 continues" in won.loopty("optimize", "--from", "1.1", code=2).stderr
    won.loopty("optimize", "--quiet", "--new-run", "--from", "@2")
    assert won.history().score(won.history()["2.1"]) == 9
    changed(won, *NOT_COMPARABLE["the timeout"])
    assert "carried" not in won.loopty("optimize", "--quiet", "--from", "baseline", code=None).stderr


def test_what_no_longer_fits_is_not_carried_over_and_the_user_learns_why(won):
    won.write("src/x.txt", "6\n")
    changed(won, *NOT_COMPARABLE["the timeout"])
    reason = "@2 of run 1 is not carried over: it conflicts with your files in src/x.txt"
    assert reason in won.loopty("optimize", "--from", "best", code=2).stderr
    assert list(won.history().runs) == [1], "no run is recorded for a start that is refused"
    assert reason in won.loopty("optimize", "--quiet").stderr


def test_what_the_access_rules_forbid_now_is_not_carried_over(won):
    changed(won, 'write = ["src/**"]', 'write = ["lib/**"]')
    won.write("lib/y.txt", "1\n")
    output = won.loopty("optimize", "--quiet", code=None).stderr
    assert "have changed (access.write)" in output
    assert "not carried over: it may not change src/x.txt (writable: lib/**)" in output


def test_old_runs_stay_readable(begun):
    begun.loopty("optimize", "--quiet")
    begun.write("src/x.txt", "50\n")
    done = begun.loopty("optimize", "--new-run")
    assert "50" in done.stdout
    assert begun.json("status")["run"] == 2
    assert begun.json("status", "--run", "1")["run"] == 1
    for verb in ("status", "report", "best"):
        assert begun.loopty(verb, "--run", "1").stdout != begun.loopty(verb).stdout
    history = begun.history()
    assert history.score(history["1"]) == 5
    assert history.score(history["2"]) == 50
    assert begun.loopty("tree", "1").stdout.splitlines()[1].startswith("@1 ")
    assert "there are runs 1, 2" in begun.loopty("status", "--run", "3", code=2).stderr


def test_a_node_of_a_run_with_other_criteria_is_not_measured(begun):
    begun.loopty("run", "1")
    changed(begun, *NOT_COMPARABLE["the limits"])
    assert "criteria have changed" in begun.loopty("run", "1.1", code=2).stderr
    assert "criteria have changed" in begun.loopty("replay", "1", code=2).stderr
    changed(begun, *COMPARABLE["the statement"])
    (begun.top / ".loopty/drafts/1.1/src/x.txt").write_text("4\n")
    begun.loopty("run", "1.1")


def test_optimize_resumes_a_run_whose_budget_was_raised(begun):
    begun.loopty("optimize", "--quiet", code=None)
    assert "all 2 attempt trials are spent" in begun.loopty("optimize", code=None).stdout.replace("\n", " ")
    changed(begun, *COMPARABLE["the pools"])
    begun.loopty("optimize", "--quiet", code=None)
    assert begun.json("status")["run"] == 1
    assert len([node for node in begun.history().ids if node.parent]) == 4
