"""Several processes on one ledger."""

from loopty.domain.trial import Pool, Verdict
from loopty.record.verdicts import Incumbents

from .state import event_count


def test_eight_new_and_eight_run_at_once_all_succeed(code_place):
    code_place.loopty("run", "1")
    makers = [code_place.start("new", "--parent", "1", "-m", f"change {n}", "--json") for n in range(8)]
    for maker in makers:
        _, err = maker.communicate(timeout=120)
        assert maker.returncode == 0, err
    history = code_place.history()
    nodes = [node for node in history.ids if node.parent]
    assert sorted(node.sort_key for node in nodes) == [(1, number) for number in range(1, 9)]
    for node in nodes:
        (code_place.top / ".loopty/drafts" / node / "src/x.txt").write_text(f"{node.sort_key[-1] + 10}\n")
    runners = [code_place.start("run", node) for node in nodes]
    for runner in runners:
        _, err = runner.communicate(timeout=120)
        assert runner.returncode == 0, err
    history = code_place.history()
    assert {history.score(history[node]) for node in nodes} == set(map(float, range(11, 19)))
    assert Incumbents.of(history.run, Pool.ATTEMPT).best == next(
        n for n in nodes if history.score(history[n]) == 18
    )
    assert all(history[node].verdict in (Verdict.KEPT, Verdict.DISCARDED) for node in nodes)


ISOLATED = """
width = 8
[benchmark]
command = "python3 evaluate.py"
files = ["evaluate.py"]
timeout_seconds = 60
isolated = true
[access]
write = ["src/**"]
"""
READS = """
import time
from loopty_sdk import Run, candidate
time.sleep(0.5)
Run().finish(float(candidate.read("src/x.txt")))
"""


def test_eight_isolated_trials_at_once_do_not_disturb_each_others_benchmark(place):
    place.write("loopty.toml", ISOLATED)
    place.write("evaluate.py", READS)
    place.write("src/x.txt", "0\n")
    place.commit()
    place.loopty("run", "1")
    drafts = [place.json("new", "--parent", "1") for _ in range(8)]
    for number, draft in enumerate(drafts, start=1):
        (place.top / draft["workspace"] / "src/x.txt").write_text(f"{number}\n")
    runners = [place.start("run", draft["node"]) for draft in drafts]
    for runner in runners:
        out, err = runner.communicate(timeout=120)
        assert runner.returncode == 0, out + err
    history = place.history()
    assert {history.score(history[draft["node"]]) for draft in drafts} == set(map(float, range(1, 9)))


def test_when_two_processes_run_one_node_one_is_refused(code_place):
    code_place.write("bench.sh", 'sleep 1.5; echo "{\\"score\\": 1}" > "$EVO_RESULT_PATH"\n')
    code_place.commit()
    both = [code_place.start("run", "1"), code_place.start("run", "1")]
    errors = [process.communicate(timeout=120)[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes == [0, 2], errors
    assert any("is running already" in err or "has its verdict" in err for err in errors), errors


def test_a_second_optimize_on_the_same_run_is_refused_with_the_owner(parameter_place):
    toml = (parameter_place.top / "loopty.toml").read_text()
    parameter_place.write("loopty.toml", toml.replace('command = "', 'command = "sleep 0.5; '))
    first = parameter_place.start("optimize", "--quiet")
    while event_count(parameter_place, "node-judged") < 2:
        assert first.poll() is None
    second = parameter_place.loopty("optimize", code=2)
    assert "driven by" in second.stderr
    first.communicate(timeout=120)
    assert first.returncode == 0


def test_eight_first_commands_at_once_start_one_run(code_place):
    makers = [code_place.start("new", "-m", f"change {n}") for n in range(8)]
    for maker in makers:
        _, err = maker.communicate(timeout=120)
        assert maker.returncode == 0, err
    history = code_place.history()
    assert list(history.runs) == [1]
    assert len(list(history.ids)) == 9
