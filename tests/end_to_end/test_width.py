"""Parameter trials run in parallel; trials that need the same resource take turns."""

import json
import uuid

from loopty.domain.trial import Ending

from .state import kept_of

TASK = """
width = 4
[benchmark]
command = "python3 bench.py"
timeout_seconds = 60
{resources}
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[pools]
attempts = 4
[proposer]
kind = "random"
[noise]
repeat = "never"
"""
BENCH = """\
import json, os, time
x = json.load(open(os.environ["LOOPTY_PARAMS"]))["x"]
start = time.time()
time.sleep(SECONDS)
span = json.dumps([start, time.time()])
open(os.environ["EVO_TRACES_DIR"] + "/task_span.json", "w").write(span)
json.dump({"score": x}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


def spans(place, resources: str, seconds: float) -> list[tuple[float, float]]:
    """When each attempt ran."""
    place.write("loopty.toml", TASK.format(resources=resources))
    place.write("bench.py", BENCH.replace("SECONDS", str(seconds)))
    place.commit()
    place.loopty("optimize", "--quiet")
    history = place.history()
    assert all(history[node].outcome.ending is Ending.FINISHED for node in history.ids)
    folders = [kept_of(place, node) for node in history.ids if node != "1"]
    names = [(folder, f"traces/{name}") for folder in folders for name in folder.names_below("traces")]
    return [tuple(json.loads(folder.read(name))) for folder, name in names]


def most_at_once(found: list[tuple[float, float]]) -> int:
    return max(sum(start <= moment < end for start, end in found) for moment, _ in found)


def test_four_slots_run_four_trials_at_once(place):
    found = spans(place, "", 3)
    assert len(found) == 4
    assert most_at_once(found) == 4


def test_a_named_resource_is_held_by_one_trial_at_a_time(place):
    found = spans(place, f'resources = ["gpu {uuid.uuid4()}"]', 0.2)
    assert len(found) == 4
    assert most_at_once(found) == 1


def test_four_processes_share_one_slot_and_say_for_what_they_wait(place):
    place.write("loopty.toml", TASK.replace("width = 4", "width = 1").format(resources=""))
    place.write("bench.py", BENCH.replace("SECONDS", "1.2"))
    place.commit()
    place.loopty("run", "1")
    nodes = [place.json("new", "--parent", "1", "--param", f"x=0.{number}")["node"] for number in range(1, 5)]
    runners = [place.start("run", node) for node in nodes]
    said = [runner.communicate(timeout=120)[1] for runner in runners]
    assert [runner.returncode for runner in runners] == [0, 0, 0, 0]
    found = [tuple(json.loads(kept_of(place, node).read("traces/task_span.json"))) for node in nodes]
    assert most_at_once(found) == 1
    assert any("waiting for a slot: width = 1" in text for text in said)
