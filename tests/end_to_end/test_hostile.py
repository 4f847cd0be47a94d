"""Whatever a candidate does is one failed trial with a one-line reason; the run goes on."""

import json

import pytest

from loopty.domain.trial import Ending, Pool, Verdict
from loopty.record.verdicts import Incumbents

TASK = """
[benchmark]
command = "sh candidate.sh"
timeout_seconds = 2
[access]
write = ["candidate.sh"]
[limits]
memory_mb = 300
processes = 40
output_mb = 4
disk_mb = 40
[pools]
attempts = 50
"""
GOOD = 'echo "{\\"score\\": -5}" > "$EVO_RESULT_PATH"\n'
PYTHON = "python3 -c '{}'\n"

HOSTILE = {
    "hang": ("sleep 60", Ending.TIMED_OUT, "still running after 2 s"),
    "crash": ("echo it broke >&2; exit 3", Ending.FAILED, "exit code 3: it broke"),
    "no result": ("true", Ending.FAILED, "was not written"),
    "os exit": ("python3 -c 'import os; os._exit(0)'", Ending.FAILED, "was not written"),
    "fork bomb": ("bomb() { bomb | bomb & }; bomb; wait; sleep 60", None, ""),
    "10 GB print": ("yes | head -c 10G", Ending.FAILED, "printed more than 4 MB"),
    "memory": (
        "python3 -c 'x = bytearray(900 << 20); x[::4096] = bytes(len(x[::4096])); import time; time.sleep(9)'",
        Ending.FAILED,
        "more than 300 MB of memory",
    ),
    "disk": ('head -c 900M /dev/zero > "$EVO_TRACES_DIR/big"; sleep 9', Ending.FAILED, ""),
    "nan": ('echo "{\\"score\\": NaN}" > "$EVO_RESULT_PATH"', Ending.FAILED, "NaN"),
    "infinity": ('echo "{\\"score\\": 1e999}" > "$EVO_RESULT_PATH"', Ending.FAILED, "a score is a finite number"),
    "true": ('echo "{\\"score\\": true}" > "$EVO_RESULT_PATH"', Ending.FAILED, "not a number"),
    "text": ('echo "{\\"score\\": \\"9e9\\"}" > "$EVO_RESULT_PATH"', Ending.FAILED, "not a number"),
    "empty": (': > "$EVO_RESULT_PATH"', Ending.FAILED, "is empty"),
    "100 MB": ('head -c 30M /dev/zero > "$EVO_RESULT_PATH"', Ending.FAILED, "bytes"),
    "fifo": ('mkfifo "$EVO_RESULT_PATH"', Ending.FAILED, "not a regular file"),
    "symlink": ('ln -s /etc/passwd "$EVO_RESULT_PATH"', Ending.FAILED, "link"),
    "endless symlink": ('ln -s /dev/zero "$EVO_RESULT_PATH"', Ending.FAILED, "link"),
    "directory": ('mkdir "$EVO_RESULT_PATH"', Ending.FAILED, "not a regular file"),
}


@pytest.fixture
def arena(place):
    """A repository whose baseline works and scores below zero."""
    place.write("candidate.sh", GOOD)
    place.write("loopty.toml", TASK)
    place.commit()
    place.loopty("run", "1")
    return place


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_candidate_is_one_failed_trial_with_a_one_line_reason(arena, name):
    script, ending, reason = HOSTILE[name]
    made = arena.json("new", "--parent", "1", "-m", name)
    (arena.top / made["workspace"] / "candidate.sh").write_text(script + "\n")
    arena.loopty("run", made["node"], code=1)
    history = arena.history()
    node = history["1.1"]
    assert node.verdict is Verdict.DISCARDED
    assert node.outcome.ending is ending or ending is None
    assert reason in node.reason
    assert "\n" not in node.reason
    assert len(node.reason) < 300
    assert Incumbents.of(history.run, Pool.ATTEMPT).best == "1"
    good = arena.json("new", "--parent", "1", "-m", "better")
    (arena.top / good["workspace"] / "candidate.sh").write_text(GOOD.replace("-5", "-4"))
    assert json.loads(arena.loopty("run", good["node"], "--json").stdout)["verdict"] == "kept"
