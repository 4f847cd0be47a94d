"""Replay: reports whether a measurement reproduces the record, and does not change the record."""

import os
import signal
import time

import pytest

from loopty.domain.trial import Pool
from loopty.record.trials import Trials

from .conftest import NUMBER_BENCH
from .state import events

OTHERWISE_LATER = (
    'echo "{\\"score\\": $([ $EVO_ATTEMPT -gt 3 ] && echo 9 || cat src/x.txt)}" > "$EVO_RESULT_PATH"\n'
)
"""The baseline of a benchmark that does not vary is measured three times."""


def record(place) -> tuple:
    history = place.history()
    attempts = history.run.pools[Pool.ATTEMPT]
    nodes = [(n.id, n.verdict, n.outcome, n.reason, n.commit) for n in map(history.__getitem__, history.ids)]
    return attempts, nodes


def test_a_deterministic_node_is_reproduced(code_place):
    code_place.loopty("optimize", "--quiet")
    before = record(code_place)
    best = code_place.json("best")["id"]
    output = code_place.loopty("replay", best)
    assert output.stdout.startswith(f"@{code_place.history().handle(best)} reproduced\n")
    assert code_place.json("replay", "best")["same"] is True
    assert record(code_place) == before
    assert (code_place.top / f".loopty/nodes/{best}/result.json").exists()


def test_a_difference_is_reported_and_the_verdict_stays(code_place):
    code_place.write("bench.sh", OTHERWISE_LATER)
    code_place.commit()
    code_place.loopty("run", "1")
    kept = (code_place.top / ".loopty/nodes/1/result.json").read_bytes()
    before = record(code_place)
    output = code_place.loopty("replay", "1", code=1)
    assert output.stdout == "@1 differs\n  score: 5 (3 times) then, 9 now (+80.0 %)\n"
    assert output.stderr == "measured once; --repeats 5 tells more\n"
    assert record(code_place) == before
    assert (code_place.top / ".loopty/nodes/1/result.json").read_bytes() == kept


def test_a_failed_node_is_reproduced_when_it_fails_again(code_place):
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1")
    (code_place.top / made["workspace"] / "src/x.txt").write_text("oops\n")
    code_place.loopty("run", "1.1", code=1)
    assert "@2 reproduced: failed: " in code_place.loopty("replay", "1.1").stdout


@pytest.mark.parametrize("node", ["1", "1.1"])
def test_a_node_without_a_result_cannot_be_replayed(code_place, node):
    code_place.loopty("new", "--parent", "1")
    assert "`loopty run" in code_place.loopty("replay", node, code=2).stderr


def test_repeats_are_compared_by_their_median(code_place):
    code_place.loopty("run", "1")
    replay = code_place.json("replay", "1", "--repeats", "3")
    assert replay["same"] is True
    assert replay["samples"] == [{"score": 5.0}] * 3
    assert replay["machine"] == []
    assert "5 (3 times) then, 5 (3 times) now" in code_place.loopty("replay", "1", "--repeats", "3").stdout


def test_the_first_failure_ends_the_repeats(code_place):
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1")
    (code_place.top / made["workspace"] / "src/x.txt").write_text("oops\n")
    code_place.loopty("run", "1.1", code=1)
    assert code_place.json("replay", "1.1", "--repeats", "5")["samples"] == [{}]


def test_a_folder_named_like_a_node_is_a_path_only_when_it_is_written_as_one(code_place):
    code_place.loopty("run", "1")
    (code_place.top / "1").mkdir()
    assert "@1 reproduced" in code_place.loopty("replay", "1").stdout
    assert "not a complete artifact" in code_place.loopty("replay", "./1", code=2).stderr


def test_a_killed_replay_loses_nothing_and_the_next_one_works(code_place):
    slow_once = 'if [ "$EVO_ATTEMPT" -eq 4 ]; then sleep 30; fi\n'
    code_place.write("bench.sh", slow_once + NUMBER_BENCH)
    code_place.commit()
    code_place.loopty("run", "1")
    before, node = events(code_place), code_place.history()["1"]
    process = code_place.start("replay", "1")
    while not (code_place.state / "nodes/1/replay-4").exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert code_place.loopty("replay", "1").stdout.startswith("@1 reproduced\n")
    assert events(code_place)[: len(before)] == before
    after = code_place.history()["1"]
    assert (after.verdict, after.outcome, after.samples) == (node.verdict, node.outcome, node.samples)
    assert Trials.of(code_place.history().runs[1]).running == {}
    assert list((code_place.state / "trials").iterdir()) == []


def test_an_interrupted_replay_compares_nothing(code_place):
    slow_once = 'if [ "$EVO_ATTEMPT" -eq 4 ]; then sleep 30; fi\n'
    code_place.write("bench.sh", slow_once + NUMBER_BENCH)
    code_place.commit()
    code_place.loopty("run", "1")
    before = record(code_place)
    process = code_place.start("replay", "1")
    while not (code_place.state / "nodes/1/replay-4").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (130, "", "loopty: interrupted")
    assert record(code_place) == before


def test_a_full_disk_in_a_replay_loses_nothing(code_place, small_disk):
    code_place.loopty("run", "1")
    before = events(code_place)
    disk = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * (disk.f_bavail * disk.f_bsize - 4096))
    output = code_place.loopty("replay", "1", code=2).stderr
    assert "disk" in output
    assert len(output.strip().splitlines()) == 1
    (small_disk / "ballast").unlink()
    assert code_place.loopty("replay", "1").stdout.startswith("@1 reproduced\n")
    assert events(code_place)[: len(before)] == before
    assert Trials.of(code_place.history().runs[1]).running == {}
