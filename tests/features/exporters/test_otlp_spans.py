"""Trials and calls as spans, sent to a real server on loopback."""

import http.server
import json
import threading

import pytest

from loopty.domain.errors import Misuse
from loopty.features.exporters.trials import TelemetrySpan, call_spans, send_spans, trial_spans
from loopty.record.calls import CallReserved, CallSettled
from loopty.show.trial_rows import trial_rows

from ...show.story import OWNER, Story


@pytest.fixture
def collector():
    """Keeps the path and the body of each request."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(404 if self.path == "/wrong" else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    got: list = []
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", got
        server.shutdown()
        thread.join()


def spans_of(story: Story):
    yield from trial_spans(trial_rows(story.history, story.ledger.read(), 1))
    yield from call_spans(story.ledger.read(), 1)


def test_trials_and_calls_are_spans_with_ids_that_stay(collector):
    address, got = collector
    story = Story()
    story.tries("1", None)
    story.tell(CallReserved(1, "call", "evolver", 100, 0.5, OWNER, "small"))
    story.tell(CallSettled(1, "call", 80, 0.4))
    assert send_spans(spans_of(story), address, "repo", 1) == 3
    assert send_spans(spans_of(story), address, "repo", 1) == 3
    (path, first), (_, again) = got
    assert path == "/v1/traces"
    assert first == again
    spans = first["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["trial attempt", "trial attempt", "call evolver"]
    assert [span["status"]["code"] for span in spans] == [1, 2, 1]
    assert int(spans[2]["endTimeUnixNano"]) > int(spans[2]["startTimeUnixNano"])
    values = {item["key"]: item["value"] for item in spans[2]["attributes"]}
    assert values["gen_ai.request.model"] == {"stringValue": "small"}
    assert values["loopty.tokens"] == {"intValue": "80"}


def test_a_refusal_and_a_wrong_address_are_explained(collector):
    address, _ = collector
    with pytest.raises(Misuse, match="answered 404"):
        send_spans(spans_of(Story()), f"{address}/wrong", "repo", 1)
    with pytest.raises(Misuse, match="no address of a collector"):
        send_spans(spans_of(Story()), "file:///etc/passwd", "repo", 1)


@pytest.mark.parametrize("address", ["http://[", "http://user:word@127.0.0.1:1"])
def test_an_address_that_is_none_is_refused_without_showing_it(address):
    with pytest.raises(Misuse, match="no address of a collector") as found:
        send_spans([], address, "repo", 1)
    assert "word@" not in str(found.value)


def test_no_time_of_a_trial_breaks_a_span(collector):
    address, got = collector
    times = (-1.0, 1e300, float("nan"))
    assert (
        send_spans([TelemetrySpan("n", "k", at, at, False, {"a": 10**30}) for at in times], address, "r", 1) == 3
    )
    spans = got[0][1]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [int(span["endTimeUnixNano"]) < 2**64 for span in spans] == [True, True, True]
