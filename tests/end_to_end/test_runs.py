"""A new run starts only when results would not be comparable."""

import pytest

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
