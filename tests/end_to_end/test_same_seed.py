"""With one seed and width 1, a deterministic task grows the same tree, also when it is interrupted."""

import signal
import time

import pytest

from .state import node_count

PARAMETERS = """
seed = 7
[benchmark]
command = "python3 bench.py"
timeout_seconds = 20
[parameters.x]
type = "float"
low = -2.0
high = 2.0
[parameters.y]
type = "float"
low = 1e-3
high = 10.0
log = true
[pools]
attempts = 11
control = 2
[proposer]
kind = "{kind}"
"""
BENCH = """\
import json, os, time
time.sleep(0.05)
p = json.load(open(os.environ["LOOPTY_PARAMS"]))
json.dump({"score": -(p["x"] - 1) ** 2 - (p["y"] - 3) ** 2}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""
CODE = """
seed = 7
[benchmark]
command = "sleep 0.05; sh bench.sh"
timeout_seconds = 20
[access]
write = ["src/**"]
[pools]
attempts = 11
control = 2
"""


def grown(place) -> list[tuple]:
    """The tree, without anything that depends on clocks and processes."""
    history = place.history()
    return [
        (node.id, node.pool, node.summary, node.params, node.tree, node.outcome.metrics, node.verdict, node.reason)
        for node in map(history.__getitem__, history.ids)
    ]


def clone(place, name: str):
    twin = type(place)(place.top.with_name(name))
    place.git("clone", "-q", str(place.top), str(twin.top))
    return twin


def interrupt(place, after: int) -> None:
    """Start `loopty run`, and interrupt it once there are this many nodes."""
    process = place.start("optimize", "--quiet")
    deadline = time.monotonic() + 60
    while node_count(place) < after and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 1), err
    assert "resume: loopty run" in err


@pytest.mark.parametrize("kind", ["mutate", "tpe"])
def test_two_runs_are_the_same_also_when_one_is_interrupted(code_place, kind):
    place = code_place
    place.write("loopty.toml", CODE if kind == "mutate" else PARAMETERS.format(kind=kind))
    place.write("bench.py", BENCH)
    place.commit()
    twin = clone(place, "twin")
    place.loopty("optimize", "--quiet")
    interrupt(twin, after=6)
    twin.loopty("optimize", "--quiet")
    assert len(grown(place)) == 14
    assert grown(twin) == grown(place)


def test_another_seed_grows_another_tree(code_place):
    twin = clone(code_place, "twin")
    twin.write("loopty.toml", "seed = 8\n" + (code_place.top / "loopty.toml").read_text())
    for each in (code_place, twin):
        each.loopty("optimize", "--quiet", code=None)
    assert [row[2] for row in grown(twin)] != [row[2] for row in grown(code_place)]
