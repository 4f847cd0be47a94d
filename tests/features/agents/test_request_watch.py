"""A request that nobody begins to answer is told from a long thought, by the bytes on the agent's connections."""

from loopty.domain.launch import Connection
from loopty.features.agents.launcher import RequestWatch
from loopty.proposers.agent.driver import load_driver
from loopty.proposers.agent.stalls import StallOptions, StallWatch, Vitals

ASKED = Connection(9_000, 3_000, is_sent_last=True)
BEGUN = Connection(9_000, 3_400)


def test_a_request_counts_until_the_first_byte_comes_back():
    watch = RequestWatch()
    assert watch.unanswered_seconds({1: Connection(500, 3_000)}, 0) == 0
    assert watch.unanswered_seconds({1: ASKED}, 1) == 0
    assert watch.unanswered_seconds({1: ASKED}, 31) == 30
    assert watch.unanswered_seconds({1: BEGUN}, 32) == 0
    assert watch.unanswered_seconds({1: BEGUN}, 300) == 0, "it thinks"
    assert watch.unanswered_seconds({1: Connection(9_035, 3_400, is_sent_last=True)}, 301) == 0, "no request"
    assert watch.unanswered_seconds({1: Connection(19_000, 3_500, is_sent_last=True)}, 302) == 0
    assert watch.unanswered_seconds({1: Connection(19_000, 3_500, is_sent_last=True)}, 310) == 8


def test_the_connection_that_has_sent_most_is_meant():
    watch, report = RequestWatch(), Connection(600, 0, is_sent_last=True)
    watch.unanswered_seconds({1: BEGUN, 2: report}, 0)
    assert watch.unanswered_seconds({1: BEGUN, 2: report}, 90) == 0
    assert watch.unanswered_seconds({2: report}, 91) == 91
    assert watch.unanswered_seconds({}, 92) == 0
    assert watch.unanswered_seconds(None, 93) == 0


def test_a_provider_that_cannot_be_reached_does_not_answer():
    watch = RequestWatch()
    for now in (0, 50):
        seconds = watch.unanswered_seconds({7: Connection(is_connecting=True)}, now)
    assert seconds == 50


def test_an_agent_that_thinks_silently_is_stopped_when_its_model_does_not_begin_to_answer():
    for agent, expected in (("codex", 45), ("opencode", 45), ("mini-swe-agent", 240), ("command", 240)):
        watch = StallWatch(StallOptions(tokens_per_minute=0).limits(load_driver(agent), is_served=False), 0)
        seen = next(
            now for now in range(1, 300) if watch.stall(Vitals(float(now), 0.0, unanswered_seconds=float(now)))
        )
        assert seen == expected, agent
    watch = StallWatch(StallOptions(tokens_per_minute=0).limits(load_driver("codex"), is_served=False), 0)
    assert not any(watch.stall(Vitals(float(now), 0.0)) for now in range(1, 239)), "it may think"
