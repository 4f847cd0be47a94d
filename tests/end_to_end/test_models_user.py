"""A benchmark that calls a model: only through loopty, which counts, caps and caches the calls."""

from loopty.domain.trial import Ending, Pool
from loopty.record.trials import TrialEnded

from ..models.server import refusal
from ..models.vendor_replies import Counts
from .conftest import PARAMETER_TASK, Place
from .serving import model, permit, table, vendor
from .state import events

KEY = "sk-secret-of-the-user-tests-0123456789"
BENCH = """
import json, os, sys, urllib.request
x = json.load(open(os.environ["LOOPTY_PARAMS"]))["x"]
asked = {"model": "any", "temperature": TEMPERATURE, "messages": [{"role": "user", "content": f"x is {x}"}]}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(asked).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
print(dict(os.environ))
with urllib.request.urlopen(request) as reply:
    content = json.load(reply)["choices"][0]["message"]["content"]
json.dump({"score": float(content)}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


GREEDY = BENCH.replace("print(", "while x > 0.5:\n    urllib.request.urlopen(request).read()\nprint(")
"""Asks until it is refused where x is large."""


def echo(asked: str) -> str:
    return asked.rpartition("x is ")[2]


def working(
    place: Place, server, attempts: int, temperature: int, funds: dict, bench: str = BENCH, **keys
) -> None:
    place.write("bench.py", bench.replace("TEMPERATURE", str(temperature)))
    place.write(
        "loopty.toml",
        PARAMETER_TASK.format(attempts=attempts, command='"python3 bench.py"')
        + model(server, **{"max_output_tokens": 100, **keys})
        + table("roles.user", model="near", **funds)
        + table("noise", repeat="auto" if temperature == 0 else "never"),
    )
    place.commit()


def test_its_calls_are_counted_by_role_and_equal_ones_are_answered_from_memory(place, monkeypatch):
    monkeypatch.setenv("LOOPTY_TEST_KEY", KEY)
    with vendor(echo) as server:
        permit(monkeypatch, place, server, "LOOPTY_TEST_KEY")
        working(place, server, 2, 0, {}, key_env="LOOPTY_TEST_KEY")
        closing = place.json("optimize", "--quiet")
    trials = [event for event in events(place) if isinstance(event, TrialEnded)]
    assert closing["sound"]
    assert len(trials) > 3
    assert len(server.requests) == 3, "one call for each value of x"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].body["model"] == "m-1"
    spent = place.json("spend")
    assert [(row["name"], row["sum"]["tokens"]) for row in spent["role"]] == [("user", 360)]
    assert spent["given_again"] == len(trials) - 3
    seen = (place.top / ".loopty/nodes/1/stdout.log").read_text()
    assert "'OPENAI_API_KEY': 'loopty-" in seen
    assert server.url not in seen
    assert all(KEY.encode() not in path.read_bytes() for path in place.top.rglob("*") if path.is_file())


def test_a_spent_cap_ends_the_run_and_does_not_count_against_a_candidate(place):
    with vendor(echo, counts=Counts(400, 100, 0, 0)) as server:
        working(place, server, 50, 1, {"tokens": 1_500})
        done = place.loopty("optimize")
    expected = "more tokens would pass the limit of 1500 for the user (tokens of [roles.user])"
    assert expected in done.stdout.replace("\n", " ")
    assert len(server.requests) == 3
    status = place.json("status")
    assert status["counts"][0]["endings"] == {"finished": 2, "cancelled": 1}
    assert (status["counts"][0]["started"], status["tokens"]) == (2, 1_500)


def test_a_candidate_that_exceeds_its_allowance_fails_and_the_run_continues(place):
    with vendor(echo) as server:
        working(place, server, 6, 1, {"tokens": 100_000, "trial_tokens": 500}, bench=GREEDY)
        assert "all 6 attempt trials are spent" in place.loopty("optimize").stdout.replace("\n", " ")
    outcomes = [(node.params["x"], node.outcome) for node in place.history().nodes(1, Pool.ATTEMPT)]
    failed = {outcome.reason for x, outcome in outcomes if outcome.ending is Ending.FAILED and x > 0.5}
    finished = [outcome for x, outcome in outcomes if outcome.is_finished and x <= 0.5]
    (reason,) = failed
    assert "on top of 480 used would pass the 500 that one trial may use (trial_tokens of the user role)" in reason
    greedy = len(outcomes) - len(finished)
    assert greedy > 0
    assert len(finished) > 1, "the baseline and one more node"
    assert place.json("status")["stalls"] == 0
    assert place.json("status")["tokens"] == greedy * 480 + len(finished) * 120


def test_an_unknown_model_is_reported_and_the_baseline_does_not_fail(place):
    with vendor(refusal(404, "the model m-1 does not exist", "model_not_found")) as server:
        working(place, server, 2, 1, {})
        done = place.loopty("optimize", code=1)
    expected = (
        "a model is unavailable: openai:m-1: 404 at /v1/chat/completions: the server has no model 'm-1' "
        "(check `model` and `url` of the model under [roles.user]): the model m-1 does not exist"
    )
    assert expected in done.stdout.replace("\n", " ")
    assert "resume: loopty run" in done.stderr
    assert "stalled: a model is unavailable\n" in done.stderr
    (ended,) = [event for event in events(place) if isinstance(event, TrialEnded)]
    assert ended.outcome.ending is Ending.CANCELLED
    with vendor(echo) as server:
        working(place, server, 2, 1, {})
        assert "all 2 attempt trials are spent" in place.loopty("optimize").stdout.replace("\n", " ")


def test_a_request_that_the_provider_refuses_is_reported_with_the_failure_of_the_baseline(place):
    with vendor(refusal(400, "temperature is not supported")) as server:
        working(place, server, 2, 1, {})
        done = place.loopty("optimize", code=1)
    output = done.stdout.replace("\n", " ")
    assert "the baseline @1 gave no result: failed: exit code 1" in output
    assert (
        "; its last request to the model: openai:m-1: 400 at /v1/chat/completions: the request was refused"
        in output
    )
    assert ": temperature is not supported" in output


def test_a_provider_that_is_down_ends_the_session_and_fails_no_trial(place):
    with vendor(echo, echo, refusal(500, "the cat sleeps"), echo) as server:
        working(place, server, 2, 1, {})
        done = place.loopty("optimize", code=1)
        assert "a model is unavailable: openai:m-1 gave no reply" in done.stdout.replace("\n", " ")
        status = place.json("status")
        assert (status["counts"][0]["endings"], status["stalls"]) == ({"finished": 1, "cancelled": 1}, 1)
        place.loopty("optimize")
    assert place.json("status")["counts"][0]["endings"] == {"finished": 2, "cancelled": 1}
    assert list(place.history().runs) == [1]
