"""Ctrl-C during a call or a wait for a model ends the session at once, and sent requests are paid for."""

import signal
import time

import pytest

from loopty.record.calls import CallReserved, CallSettled
from loopty.record.sessions import Session

from ..models.server import hang, refusal
from .conftest import CODE_TASK
from .serving import evolver, number, vendor
from .state import events


@pytest.mark.parametrize("held", [hang, refusal(503, "the cat sleeps", Retry_After="500")], ids=["asked", "out"])
def test_a_session_that_waits_for_a_model_is_stopped_at_once(code_place, held):
    with vendor(held, number(7)) as server:
        more = evolver(server, retries=5, outage_seconds=600.0)
        code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + more)
        running = code_place.start("optimize")
        assert server.asked.wait(120)
        while held is not hang and not any(isinstance(event, CallSettled) for event in events(code_place)):
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
        assert "resume: loopty run" in err
        assert ("no reply from a model: 503: the model is overloaded or down: the cat sleeps" in err) is (
            held is not hang
        )
        (reserved,) = [event for event in events(code_place) if isinstance(event, CallReserved)]
        (settled,) = [event for event in events(code_place) if isinstance(event, CallSettled)]
        assert settled.tokens == (reserved.tokens if held is hang else 0)
        assert Session.of(code_place.history().runs[1]).ended == "stopped on request"
    assert len(server.requests) == 1
