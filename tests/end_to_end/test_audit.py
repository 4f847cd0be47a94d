"""Audits: what they find, that the search never sees it, and that no look is lost."""

import json
import os
import random
import signal
import time

import pytest

from loopty.kit import codec
from loopty.record.trials import SplitShown, Trials
from loopty.record.verdicts import NodeJudged

from .conftest import Place
from .state import events

TASK = """
[benchmark]
command = "python3 bench.py data/train.csv"
files = ["bench.py", "data/**"]
timeout_seconds = 60
isolated = {isolated}
[audit]
command = "python3 bench.py heldout/test.csv"
files = ["heldout/**"]
[access]
write = ["src/**"]
[pools]
attempts = 6
[noise]
repeat = "never"
"""
SCORE = """
import csv, json, os, sys

def score(predict):
    with open(sys.argv[1]) as file:
        rows = [(float(row["x"]), float(row["y"])) for row in csv.DictReader(file)]
    error = sum(abs(predict(x) - y) for x, y in rows) / len(rows)
    with open(os.environ["EVO_RESULT_PATH"], "w") as file:
        json.dump({"score": 1 / (1 + error)}, file)
"""
TOGETHER = SCORE + "sys.path.insert(0, 'src')\nfrom model import predict\nscore(predict)\n"
APART = SCORE + "from loopty_sdk import candidate\nscore(candidate('src/model.py:predict', seconds=20))\n"
MODEL = "KNOWN = {}\n\n\ndef predict(x):\n    return KNOWN.get(x, 2.0 * x)\n"
ANSWER = "the answer to the third question is forty-two"
HONEST = "def predict(x):\n    return 3.0 * x + 1.0\n"


def rows(low: int, high: int) -> list[tuple[float, float]]:
    rng = random.Random(low)
    return [(float(x), round(3 * x + 1 + rng.gauss(0, 0.5), 4)) for x in range(low, high)]


def table(of: list[tuple[float, float]]) -> str:
    return "x,y\n" + "".join(f"{x},{y}\n" for x, y in of)


def memorised(of: list[tuple[float, float]]) -> str:
    """A parameter that nobody sees working: right for the training slice, useless elsewhere."""
    known = "".join(f"    {x}: {y},\n" for x, y in of)
    return f"KNOWN = {{\n{known}}}\n\n\ndef predict(x):\n    return KNOWN.get(x, 0.0)\n"


@pytest.fixture
def split_place(place) -> Place:
    """A model scored on a training slice, with a test slice held out; benchmark and candidate together."""
    return prepared(place, isolated=False)


def prepared(place: Place, isolated: bool) -> Place:
    place.write("src/model.py", MODEL)
    place.write("bench.py", APART if isolated else TOGETHER)
    place.write("data/train.csv", table(rows(0, 20)))
    place.write("heldout/test.csv", table(rows(20, 40)))
    place.write("loopty.toml", TASK.format(isolated=str(isolated).lower()))
    place.commit()
    return place


def tried(place: Place, model: str) -> str:
    """A node with this model, run."""
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/model.py").write_text(model)
    place.loopty("run", made["node"], code=None)
    return made["node"]


def flags(row: dict) -> list[str]:
    return [flag["kind"] for flag in row["flags"]]


@pytest.mark.parametrize("isolated", [False, True])
def test_a_candidate_that_memorises_the_training_slice_is_flagged_and_an_honest_one_is_not(place, isolated):
    prepared(place, isolated)
    place.loopty("run", "1")
    honest = tried(place, HONEST)
    output = place.loopty("audit", honest)
    overfit = tried(place, memorised(rows(0, 20)))
    assert place.json("best")["id"] == overfit
    baseline, good, bad = json.loads(place.loopty("audit", "--json", code=1).stdout)
    assert [baseline["node"], good["node"], bad["node"]] == ["1", honest, overfit]
    assert [baseline["look"], good["look"], bad["look"]] == [1, 2, 3]
    assert good["flags"] == []
    assert good["survives"] > 0.5
    assert bad["search"] > good["search"]
    assert bad["held_out"] < good["held_out"]
    assert bad["gap"] > bad["search_gain"]
    assert flags(bad) == ["overfitting", "drift"]
    assert "look 2 at this split" in output.stderr
    listed = place.loopty("audit", "--list").stdout
    assert "overfitting" in listed
    assert "3 looks at this split" in listed
    assert all(len(line) <= 80 for line in listed.splitlines())


def test_without_a_split_the_verb_says_what_to_add(code_place):
    code_place.loopty("run", "1")
    output = code_place.loopty("audit", code=2).stderr
    assert "[audit]" in output
    assert "files =" in output
    assert code_place.loopty("audit", "--list").stdout.strip() == "no audit yet"


def test_a_node_without_a_score_is_not_audited(split_place):
    split_place.loopty("run", "1")
    failed = tried(split_place, "def predict(x):\n    raise ValueError\n")
    assert "no score" in split_place.loopty("audit", failed, code=2).stderr
    assert not [event for event in events(split_place) if isinstance(event, SplitShown)]


PEEK = """
import os

def predict(x):
    seen = [name for _, folders, names in os.walk("/loopty") for name in (*folders, *names)]
    assert not [name for name in seen if "heldout" in name or "test.csv" in name], seen
    return 2.0 * x
"""


@pytest.mark.parametrize("isolated", [False, True])
def test_no_trial_of_the_search_can_read_the_held_out_files(place, isolated):
    prepared(place, isolated)
    peeks = "import glob\nassert not glob.glob('heldout*/**', recursive=True)\n"
    place.write("bench.py", peeks + (APART if isolated else TOGETHER))
    place.commit()
    place.loopty("run", "1")
    peeking = tried(place, PEEK)
    assert place.history()[peeking].outcome.is_finished, place.history()[peeking].outcome.reason


def test_an_isolated_candidate_cannot_read_the_split_even_while_it_is_audited(place):
    prepared(place, isolated=True)
    place.loopty("run", "1")
    peeking = tried(place, PEEK)
    assert place.history()[peeking].outcome.is_finished
    audited = json.loads(place.loopty("audit", peeking, "--json", code=None).stdout)[-1]
    assert (audited["node"], audited["ended"]) == (peeking, "")


def test_no_proposal_can_write_the_held_out_files(place):
    prepared(place, isolated=False)
    task = TASK.format(isolated="false").replace('write = ["src/**"]', 'write = ["**"]')
    place.write("loopty.toml", task)
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1")
    assert not [path for path in made["files"] if path.startswith("heldout")]
    planted = place.top / made["workspace"] / "heldout/test.csv"
    planted.parent.mkdir()
    planted.write_text("x,y\n1,3\n")
    assert "may not change heldout/test.csv" in place.loopty("run", made["node"], code=2).stderr


def test_results_of_an_audit_are_in_nothing_that_the_search_reads(split_place):
    split_place.loopty("run", "1")
    node = tried(split_place, HONEST)
    before = set((split_place.top / ".loopty/nodes").rglob("*"))
    found = [row["held_out"] for row in json.loads(split_place.loopty("audit", node, "--json").stdout)]
    history = split_place.history()
    seen = [history.body(each) for each in history.ids] + [codec.text(run) for run in history.runs.values()]
    for verb in (
        ["tree"],
        ["report"],
        ["status"],
        ["best"],
        ["best", "--top", "5"],
        ["show", node],
        ["show", "1"],
    ):
        seen += [split_place.loopty(*verb, "--json").stdout, split_place.loopty(*verb).stdout]
    after = set((split_place.top / ".loopty/nodes").rglob("*"))
    assert after == before
    seen += [path.read_text(errors="replace") for path in after if path.is_file()]
    assert len(found) == 2
    for score in found:
        assert not [text for text in seen if str(score) in text or f"{score:.6g}" in text]


def test_an_audit_does_not_influence_the_search(tmp_path):
    verdicts = []
    for name, audited in (("one", True), ("other", False)):
        place = Place(tmp_path / name)
        place.top.mkdir()
        place.git("init", "-q", "-b", "main")
        prepared(place, isolated=False)
        place.loopty("run", "1")
        if audited:
            place.loopty("audit")
        place.loopty("optimize", "--quiet")
        judged = [event for event in events(place) if isinstance(event, NodeJudged)]
        verdicts.append([(event.node, event.verdict, event.reason) for event in judged])
    assert verdicts[0] == verdicts[1]


def test_nothing_is_judged_against_what_an_audit_refuted_and_apply_names_the_audit(split_place):
    place, audit = split_place, "the gain of @2 does not carry over to the held-out split"
    place.loopty("run", "1")
    overfit = tried(place, memorised(rows(0, 20)))
    assert audit in place.loopty("audit", code=1).stderr
    assert place.json("best")["id"] == "1"
    assert f"warning: {audit}" in place.loopty("apply", overfit).stderr
    assert audit in place.loopty("apply", "best", code=2).stderr
    honest = tried(place, HONEST)
    assert place.json("best")["id"] == honest, "it is judged against the baseline, which still holds"
    assert audit in place.loopty("apply", "best").stderr


def test_a_changed_split_is_reported_and_not_compared(split_place):
    outside = split_place.top.parent / "held-out.csv"
    outside.write_text(table(rows(20, 40)))
    task = TASK.format(isolated="false").replace("heldout/test.csv", str(outside))
    split_place.write("loopty.toml", task.replace('files = ["heldout/**"]', f'data = ["{outside}"]'))
    split_place.commit()
    split_place.loopty("run", "1")
    split_place.loopty("audit")
    node = tried(split_place, HONEST)
    outside.write_text(table(rows(40, 60)))
    first, baseline, row = json.loads(split_place.loopty("audit", node, "--json", code=1).stdout)
    assert first["split"] != baseline["split"] == row["split"]
    assert [baseline["look"], row["look"]] == [1, 2]
    assert flags(baseline) == ["another split"]
    assert row["held_out_gain"] > 0


def test_a_candidate_that_quotes_the_split_is_flagged(split_place):
    split_place.write("heldout/answers.txt", f"{ANSWER}\n")
    split_place.commit()
    split_place.loopty("run", "1")
    quoting = tried(split_place, f"{HONEST}\n# What to remember:\nNOTE = '''\n{ANSWER}\n'''\n")
    row = json.loads(split_place.loopty("audit", quoting, "--json", code=1).stdout)[-1]
    assert flags(row) == ["contamination"]
    assert "src/model.py quotes 1 line of the held-out heldout/answers.txt" in row["flags"][0]["words"]


def test_a_killed_audit_counts_as_a_look_and_the_next_one_works(split_place):
    split_place.loopty("run", "1")
    split_place.loopty("audit")
    slow = tried(split_place, "import os, time\nif os.path.exists('heldout'):\n    time.sleep(30)\n" + HONEST)
    process = split_place.start("audit", slow)
    while not (split_place.state / "audits" / f"{slow}-2").exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    listed = split_place.json("audit", "--list")
    assert [row["look"] for row in listed] == [1, 2]
    assert "counts as a look" in listed[-1]["ended"]
    assert listed[0]["held_out"] is not None
    again = json.loads(split_place.loopty("audit", "1", "--json").stdout)
    assert [row["look"] for row in again] == [1, 2, 3]
    assert again[-1]["ended"] == ""
    assert Trials.of(split_place.history().runs[1]).running == {}
    assert list((split_place.state / "trials").iterdir()) == []


@pytest.mark.parametrize(("room", "lacking"), [(500_000, "the split's files"), (4096, "the record")])
def test_a_full_disk_in_an_audit_loses_nothing(split_place, small_disk, room, lacking):
    split_place.write("heldout/more.csv", "x,y\n" * 250_000)
    split_place.commit()
    split_place.loopty("run", "1")
    before = events(split_place)
    disk = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(b"x" * (disk.f_bavail * disk.f_bsize - room))
    output = split_place.loopty("audit", code=2).stderr
    assert len(output.strip().splitlines()) == 1
    assert "disk" in output, lacking
    (small_disk / "ballast").unlink()
    rows = split_place.json("audit")
    assert events(split_place)[: len(before)] == before
    assert rows[-1]["ended"] == ""
    assert rows[-1]["look"] == len([event for event in events(split_place) if isinstance(event, SplitShown)])
    assert Trials.of(split_place.history().runs[1]).running == {}


def test_an_audit_that_fails_is_a_look_without_a_score(split_place):
    split_place.loopty("run", "1")
    brittle = tried(split_place, "import os\nassert not os.path.exists('heldout')\n" + HONEST)
    rows = json.loads(split_place.loopty("audit", brittle, "--json", code=1).stdout)
    assert rows[-1]["held_out"] is None
    assert rows[-1]["ended"].startswith("failed: exit code 1")
    assert rows[-1]["look"] == 2
    assert split_place.history()[brittle].outcome.is_finished
