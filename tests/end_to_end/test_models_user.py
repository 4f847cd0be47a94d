"""A benchmark that works with a model of its own: reached through loopty alone, counted, capped, cached."""

from loopty.core.events import TrialEnded

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
    said = json.load(reply)["choices"][0]["message"]["content"]
json.dump({"score": float(said)}, open(os.environ["EVO_RESULT_PATH"], "w"))
"""


def echo(asked: str) -> str:
    return asked.rpartition("x is ")[2]


def working(place: Place, server, attempts: int, temperature: int, funds: dict, **keys) -> None:
    place.write("bench.py", BENCH.replace("TEMPERATURE", str(temperature)))
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
    assert len(server.requests) == 3, "one for each value of x"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[0].body["model"] == "m-1"
    spent = place.json("spend")
    assert [(row["name"], row["sum"]["tokens"]) for row in spent["role"]] == [("user", 360)]
    assert spent["given_again"] == len(trials) - 3
    seen = (place.top / ".loopty/nodes/1/stdout.log").read_text()
    assert "'OPENAI_API_KEY': 'loopty-" in seen
    assert server.url not in seen
    assert all(KEY.encode() not in path.read_bytes() for path in place.top.rglob("*") if path.is_file())


def test_a_spent_cap_ends_the_run_and_is_not_held_against_a_candidate(place):
    with vendor(echo, counts=Counts(400, 100, 0, 0)) as server:
        working(place, server, 50, 1, {"tokens": 1_500})
        done = place.loopty("optimize")
    assert "more tokens would pass the limit of 1500 for the user" in done.stdout.replace("\n", " ")
    assert len(server.requests) == 3
    status = place.json("status")
    assert status["counts"][0]["endings"] == {"finished": 2, "cancelled": 1}
    assert (status["counts"][0]["started"], status["tokens"]) == (2, 1_500)


def test_a_provider_that_is_down_ends_the_session_and_fails_no_trial(place):
    with vendor(echo, echo, refusal(500, "the cat sleeps"), echo) as server:
        working(place, server, 2, 1, {})
        done = place.loopty("optimize", code=1)
        assert "a model could not be had: openai:m-1 gave no reply" in done.stdout.replace("\n", " ")
        status = place.json("status")
        assert (status["counts"][0]["endings"], status["stalls"]) == ({"finished": 1, "cancelled": 1}, 1)
        place.loopty("optimize")
    assert place.json("status")["counts"][0]["endings"] == {"finished": 2, "cancelled": 1}
    assert list(place.history().runs) == [1]
