"""The page says no more than the terminal does: of gains, of states, of what a node changed."""

import asyncio

import pytest

from loopty.campaign.campaign import Campaign
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Effect, Ending, Outcome, Pool, Verdict
from loopty.record.directives import AuditConcluded
from loopty.record.sessions import RunStarted
from loopty.record.trials import MachineSeen, TrialEnded, TrialStarted
from loopty.show.closing_text import closing_text
from loopty.show.status_text import status_text

from ..page.story import make_page_repository, tell_noisy_run
from .conftest import serve
from .story import Story, commit, git


async def ask(client, path):
    return (await client.get(f"/api/{path}")).data


async def test_the_gain_has_the_words_of_the_terminal(story):
    async with serve(story.top) as client:
        gain = (await ask(client, "overview"))["gain"]
        assert gain["words"] == "50.0 % better than the baseline"
        status = Campaign(story.top).status(1)
        assert closing_text(status, "spent").startswith(
            "best @2: 50.0 % better than the baseline (1.0); score 1.5"
        )
        assert (await ask(client, "overview"))["state"] in status_text(status).splitlines()[0]


async def test_scores_below_zero_have_no_factor(top):
    story = Story(top)
    base, changed = (commit(top, "x.txt", text) for text in ("one\n", "two\n"))
    story.record(RunStarted(1, "c", Objective(), 0, "the first run", secret="s"), MachineSeen(1, "f", {}))
    story.node("1", base, -39.0, Verdict.KEPT, operator="baseline")
    story.node("1.1", changed, -28.0, Verdict.KEPT)
    async with serve(top) as client:
        gain = (await ask(client, "overview"))["gain"]
    assert gain["factor"] is None, "-28 is not 1.28 times -39"
    assert gain["best"]["over_baseline"]["percent"] == pytest.approx(28.2, abs=0.1)


async def test_what_is_over_the_parent_is_from_pairs_with_the_parent(story):
    files = commit(story.top, "x.txt", "three\n")
    effect = Effect("score", 0.15, 6, 0.05)
    story.node("1.1.2", files, 3.0, Verdict.KEPT, effect=effect)
    story.node("1.6", files, 4.0, Verdict.KEPT, effect=effect, params={"x": 5})
    async with serve(story.top) as client:
        rows = {row["id"]: row["gain_percent"] for row in (await ask(client, "log"))["rows"]}
        assert rows["1.1.2"] == 10.0, "the effect of its pairs, not the 100 % of two scores of different times"
        shown = (await ask(client, "node/1.1.2"))["metrics"][0]
        assert shown["over_parent"]["percent"] == 10.0


def applied_message(top, node):
    made = Campaign(top).make_branch(node, "mine", force=True)
    return git(top, "log", "-1", "--format=%B", made.commit)


def test_the_commit_of_apply_names_the_whole_path_and_the_gain_as_far_as_it_is_confirmed(story, tmp_path):
    story.node("1.1.2", commit(story.top, "x.txt", "three\n"), 3.0, Verdict.KEPT, summary="the last step")
    path = "From the baseline to loopty node @8:\n- @2: a change\n- @8: the last step"
    assert applied_message(story.top, "1.1.2") == f"score: 200.0 % better than the baseline\n\n{path}"
    make_page_repository(tmp_path / "noisy")
    tell_noisy_run(tmp_path / "noisy")
    assert applied_message(tmp_path / "noisy", "1.1").startswith("Change score: the gain is not confirmed\n")


async def test_a_change_without_a_summary_has_a_name(story):
    story.node("1.6", commit(story.top, "x.txt", "six\n"), 0.4, Verdict.DISCARDED, summary="", params={"x": 7})
    async with serve(story.top) as client:
        ended = (await ask(client, "overview"))["just_ended"][0]
        assert ended["node"]["summary"] == "x = 7"
        assert (await ask(client, "find?q=@8"))["hits"][0]["summary"] == "x = 7"


async def test_a_discarded_node_can_be_measured_again_and_shows_what_that_gave(story):
    async with serve(story.top) as client:
        found = await ask(client, "node/1.2")
        assert ("replay" in found["actions"], found["edited"], found["replays"]) == (True, True, [])
        assert "replay" not in (await ask(client, "node/1.1"))["actions"]
        reply = await client.act("replay", dry=True, node="1.2")
        assert reply.data["command"] == "loopty measure replay @3"
        node = NodeId("1.2")
        story.record(TrialStarted(node, 2, Pool.REPLAY, "bench"))
        story.record(TrialEnded(node, 2, Outcome(Ending.FINISHED, {"score": 0.7}, fingerprint="f")))
        async with asyncio.timeout(60):
            while not (again := (await ask(client, "node/1.2"))["replays"]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert [(row["ending"], row["score"]) for row in again] == [("finished", 0.7)]


async def test_what_an_audit_refuted_is_set_aside_everywhere(story):
    text = "the gain of @2 does not carry over to the held-out split"
    story.record(AuditConcluded(1, (NodeId("1.1"),), text, steers=True))
    async with serve(story.top) as client:
        seen = await ask(client, "overview")
        assert [step["handle"] for step in seen["steps"]] == [1]
        assert text in next(alert["text"] for alert in seen["alerts"] if alert["kind"] == "audit")
        assert "does not carry over" in (await ask(client, "node/1.1"))["set_aside"]
