"""A model that is unavailable: the session ends with the reason, no trial fails, and the next one continues."""

from loopty.record.calls import CallSettled
from loopty.record.sessions import SessionStalled
from loopty.record.trials import TrialEnded

from ..models.server import hang, refusal
from .conftest import CODE_TASK, Place
from .serving import evolver, number, permit, vendor, words
from .state import events


def task(place: Place, more: str) -> None:
    place.write("loopty.toml", CODE_TASK.format(attempts=2) + more)


def test_an_outage_ends_the_session_and_the_next_one_resumes(code_place):
    down = refusal(500, "the cat sleeps on the keyboard")
    with vendor(number(7), down) as server:
        task(code_place, evolver(server, retries=1, outage_seconds=0.1))
        done = code_place.loopty("optimize", code=1)
    assert "a model is unavailable: openai:m-1 gave no reply" in done.stdout.replace("\n", " ")
    assert "the cat sleeps on the keyboard" in done.stdout.replace("\n", " ")
    assert "resume: loopty run" in done.stderr
    assert len(server.requests) >= 3
    status = code_place.json("status")
    assert (status["stalls"], status["state"]) == (1, "stopped")
    assert "stalls" in code_place.loopty("status").stdout
    assert [event for event in events(code_place) if isinstance(event, SessionStalled)]
    assert all(event.outcome.is_finished for event in events(code_place) if isinstance(event, TrialEnded))

    code_place.loopty("direct", "Leave the cat alone.")
    with vendor(number(9)) as server:
        task(code_place, evolver(server))
        done = code_place.loopty("optimize")
    assert "Leave the cat alone." in words(server.requests[0].body)
    history = code_place.history()
    assert list(history.runs) == [1], "another url does not start a new run"
    assert history.score(history["1.1.1"]) == 9.0
    assert "all 2 attempt trials are spent" in done.stdout
    spent = code_place.json("spend")
    assert spent["total"]["tokens"] == 240


def test_a_refused_key_ends_the_session_at_once_with_the_remedy(code_place, monkeypatch):
    key = "sk-secret-of-the-outage-tests-0123456789"
    monkeypatch.setenv("LOOPTY_TEST_KEY", key)
    with vendor(refusal(401, f"incorrect key {key}", "invalid_api_key")) as server:
        permit(monkeypatch, code_place, server, "LOOPTY_TEST_KEY")
        task(code_place, evolver(server, retries=5, outage_seconds=600.0, key_env="LOOPTY_TEST_KEY"))
        done = code_place.loopty("optimize", code=1)
        tried = code_place.loopty("models", "--try", "near", code=1)
    assert len(server.requests) == 2
    for output in (done.stdout, tried.stderr):
        assert "401: the key in LOOPTY_TEST_KEY was refused" in output.replace("\n", " ")
    assert "stalled: a model is unavailable\n" in done.stderr, "the whole reason is in the closing line"
    assert (done.stdout + done.stderr).count("was refused") == 2
    for text in (done.stdout, done.stderr, tried.stdout, tried.stderr):
        assert key not in text
    assert all(key.encode() not in path.read_bytes() for path in code_place.top.rglob("*") if path.is_file())
    assert code_place.json("status")["counts"][0]["started"] == 0


def test_a_server_that_hangs_is_abandoned_after_the_timeout(code_place):
    with vendor(hang) as server:
        task(code_place, evolver(server, timeout_seconds=0.5))
        done = code_place.loopty("optimize", code=1)
    assert "no whole reply within 0.5 s" in done.stdout.replace("\n", " ")
    (settled,) = [event for event in events(code_place) if isinstance(event, CallSettled)]
    assert settled.tokens > 0, "the provider may have answered nevertheless"
