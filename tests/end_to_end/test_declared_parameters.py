"""Programs that declare their own parameters: by a model's reply, by an agent's edits, by a client's draft."""

import json
from pathlib import Path

from loopty.domain.trial import Pool
from loopty.record.tickets import Tickets
from loopty.record.trials import TrialCounts, TrialEnded
from loopty.record.tunings import NodeTuned, TunePointChosen

from .serving import evolver, vendor, words
from .state import events
from .test_agent_command import AGENT, replies
from .test_kill_stages import assert_all_closed, kill_after_event, started
from .test_tools import call, finished

TASK = """
seed = 3
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
[access]
write = ["src/**"]
[tune]
slice = "dev"
trials = {trials}
[pools]
attempts = 1
tunes = {tunes}
"""
# The program's score is its own parameter; without one it is 0. The slice has another scale.
BENCH = """x=$(sed -n 's/.*"height": *\\([0-9]*\\).*/\\1/p' "$LOOPTY_PARAMS"); x=${x:-0}
[ "$LOOPTY_MODE" = tune ] && x=$((x + 1000))
echo "{\\"score\\": $x}" > "$EVO_RESULT_PATH"
"""
LINE = '# loopty parameter: height = { type = "int", low = 0, high = 99, default = 7 }'
PROGRAM = f"{LINE}\nheight = 1\n"
REPLY = f"=== PROPOSAL 1: a height ===\nsrc/a.py\n```\n{PROGRAM}```\n=== END ==="


NOISE = '[noise]\nrepeat = "never"\n'


def write_task(place, more=NOISE, trials=4, tunes=20):
    place.write("bench.sh", BENCH)
    place.write("src/a.py", "height = 0\n")
    place.write("loopty.toml", TASK.format(trials=trials, tunes=tunes) + more)
    place.commit()


def test_a_reply_declares_parameters_and_only_the_promoted_ones_are_an_attempt(place):
    faulty = REPLY.replace("high = 99", "high = -1")
    with vendor(faulty, REPLY) as server:
        write_task(place, NOISE + evolver(server))
        place.loopty("optimize", "--quiet")
    first, again = (words(request.body) for request in server.requests[:2])
    assert "you may leave them open" in first
    assert "src/a.py, line 1: parameter height" in again
    assert "no larger than high = -1" in again
    status = place.json("status")
    counts = {count["pool"]: count["started"] for count in status["counts"]}
    assert (counts["attempt"], counts["tune"]) == (1, 4)
    assert status["best"]["score"] < 1000, "no score of the slice is ranked"
    shown = place.json("show", "1.1")
    assert shown["tuned"]["proposed"] == {"height": 7}
    assert shown["params"]["height"] == shown["tuned"]["score"] - 1000 == status["best"]["score"]
    assert shown["params"]["height"] > 7
    applied = json.loads(place.loopty("apply", "1.1", "--json").stdout)
    assert applied["params"] == shown["params"]


def test_declared_parameters_that_are_tuned_when_the_process_is_killed_go_on_at_the_same_point(place):
    with vendor(REPLY) as server:
        write_task(place, NOISE + evolver(server))
        for trials in (1, 3):
            kill_after_event(place, lambda: started(place, Pool.TUNE) >= trials, "optimize", "--quiet")  # noqa: B023
        place.loopty("optimize", "--quiet")
    assert len(server.requests) == 1, "the reply is not paid for twice"
    found, history = events(place), place.history()
    assert_all_closed(history.runs[1])
    chosen = {(event.node, event.number): event.params for event in found if isinstance(event, TunePointChosen)}
    whole = [event for event in found if isinstance(event, TrialEnded) and event.outcome.is_finished]
    measured = [chosen[key] for event in whole if (key := (event.node, event.number)) in chosen]
    assert measured[0] == {"height": 7}, "as it was proposed"
    assert len(measured) == 4, "none is lost or repeated"
    (tuned,) = [event for event in found if isinstance(event, NodeTuned)]
    assert tuned.params == max(measured, key=lambda params: params["height"])
    assert history["1.1"].params == tuned.params
    assert history.score(history["1.1"]) == tuned.params["height"]
    assert TrialCounts.of(history.runs[1], Pool.ATTEMPT).started == 1


def test_without_tune_mode_no_prompt_speaks_of_it(place):
    with vendor(REPLY) as server:
        write_task(place, NOISE + evolver(server))
        task = (place.top / "loopty.toml").read_text()
        place.write("loopty.toml", task.replace('[tune]\nslice = "dev"\ntrials = 4\n', ""))
        place.commit()
        place.loopty("optimize", "--quiet")
    assert "leave them open" not in words(server.requests[0].body)
    assert place.history()["1.1"].params == {"height": 7}, "the program has its default all the same"


def test_an_agent_tunes_freely_within_the_pool_before_it_ends(place):
    place.write("line.txt", f"{LINE}\n")
    script = """cat line.txt > src/a.py; loopty tool submit '{{"mode": "tune", "params": {{"height": 40}}}}' 2>&1
        loopty tool submit mode=tune 2>&1; loopty tool submit mode=tune 2>&1; loopty tool submit 2>&1
        grep -o "submit mode=tune" "$LOOPTY_PROMPT_FILE"; echo "SUMMARY: a height" """
    agent = AGENT.replace("'''", '"""').format(script="SCRIPT", more="")
    write_task(place, agent.replace("SCRIPT", json.dumps(script.format())[1:-1]), trials=0, tunes=2)
    place.loopty("optimize", "--quiet")
    said = replies(place)[-1]
    assert "score 1040 on the slice with height = 40" in said
    assert "score 1007 on the slice with height = 7" in said
    assert "\nsubmit mode=tune\n" in said, "the prompt says it"
    assert "all 2 tune trials are spent" in said
    assert "submit takes mode=tune here" in said
    history = place.history()
    assert history["1.1"].params == {"height": 7}
    assert history.score(history["1.1"]) == 7
    run = history.runs[1]
    assert (TrialCounts.of(run, Pool.TUNE).started, Tickets.of(run).open) == (2, {})


def test_a_client_tunes_its_draft_and_submits_the_values_that_it_found(place):
    write_task(place, trials=4)
    opened = call(place, "open", hypothesis="a height of its own")
    Path(opened["folder"], "src/a.py").write_text(PROGRAM)
    tuned = finished(place, "submit", id=opened["id"], mode="tune", params={"height": 55})
    assert tuned["metrics"] == {"score": 1055}
    assert "cannot be 100" in call(place, "submit", id=opened["id"], mode="tune", params={"height": 100})["error"]
    assert "there is no parameter width" in call(place, "submit", id=opened["id"], params={"width": 1})["error"]
    done = finished(place, "submit", id=opened["id"], params={"height": 55})
    assert (done["verdict"], done["score"]) == ("kept", 55)
    node = place.history()[opened["id"]]
    assert (node.params, node.tuned) == ({"height": 55}, None), "who chose the values is not tuned again"
