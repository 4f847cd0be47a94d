"""Each action: what it says it would do, what it does, and what it refuses."""

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.trial import Verdict
from loopty.record.directives import Directive
from loopty.record.sessions import ChangedLimits, Session

from .conftest import serve
from .story import commit, git


def history(story):
    return story.recorder.refresh()


async def test_a_dry_action_says_what_it_would_do_and_does_nothing(story):
    before = history(story).number
    async with serve(story.top) as client:
        for name, body in (
            ("direct", {"text": "try caches"}),
            ("pause", {}),
            ("resume", {}),
            ("stop", {}),
            ("discard", {"node": "1.1", "why": "x"}),
            ("invalidate", {"node": "1.1", "why": "x"}),
            ("remeasure", {}),
            ("restore", {"node": "1.1", "why": "x"}),
            ("accept", {"node": "1.1.1", "why": "x"}),
            ("apply", {"node": "best"}),
            ("budget", {"changes": {"attempts": 20}}),
        ):
            reply = await client.act(name, dry=True, **body)
            assert reply.status == 200, reply.body
            assert reply.data["command"].startswith("loopty ")
            assert (reply.data["confirm"] is not None) == (name in ("invalidate", "accept"))
    assert history(story).number == before


async def test_wishes_about_the_run_become_events(story):
    async with serve(story.top) as client:
        assert (await client.act("direct", text="try caches")).status == 200
        assert (await client.act("pause", why="lunch")).status == 200
        assert (await client.get("/api/overview")).data["alerts"][-1]["kind"] == "paused"
        run = history(story).runs[1]
        assert Directive.of(run).text == "try caches"
        assert Session.of(run).pause_reason == "lunch"
        assert "loopty run" in (await client.act("resume")).data["text"]
        assert (await client.act("resume")).status == 400
        changed = await client.act("budget", changes={"attempts": 20, "money_usd": None})
        assert "attempts 20" in changed.data["text"]
        assert ChangedLimits.of(history(story).runs[1]).limits == {"attempts": 20.0, "money_usd": None}
        assert (await client.get("/api/overview")).data["budget"]["attempts"] == 20


async def test_verdicts_are_taken_back_and_restored(story):
    async with serve(story.top) as client:
        assert (await client.act("discard", node="1.1", why="")).status == 400
        assert (await client.act("discard", node="1.1", why="wrong")).status == 200
        assert history(story)[NodeId("1.1")].verdict is Verdict.DISCARDED
        assert "restore" in (await client.get("/api/node/1.1")).data["actions"]
        assert (await client.act("restore", node="1.1", why="it was right")).status == 200
        assert history(story)[NodeId("1.1")].verdict is None
        assert (await client.act("invalidate", node="1.1", why="cheats")).status == 400
        assert (await client.act("invalidate", node="1.1", why="cheats", confirm="@2")).status == 200
        assert history(story)[NodeId("1.1.1")].verdict is Verdict.REJECTED


async def test_a_held_node_is_accepted_and_applied(story):
    async with serve(story.top) as client:
        reply = await client.act("accept", node="1.1.1", why="looked at it", confirm=history(story).name("1.1.1"))
        assert reply.status == 200
        assert history(story)[NodeId("1.1.1")].verdict is Verdict.KEPT
        reply = await client.act("apply", node="1.1", branch="winner")
        assert reply.status == 200, reply.body
        assert "winner" in git(story.top, "branch", "--list", "winner")


async def test_the_branch_of_a_deep_node_is_named_by_its_short_name(story):
    commits, name = commit(story.top, "x.txt", "four\n"), "1.1"
    while len(name) <= 16:
        name += ".1" if name != "1.1" else ".2"
        story.node(name, commits, 2.0 + len(name), Verdict.KEPT)
    async with serve(story.top) as client:
        reply = await client.act("apply", node=name)
        assert reply.status == 200, reply.body
    branch = f"loopty-best-@{history(story)[NodeId(name)].handle}"
    assert git(story.top, "show", f"{branch}:x.txt") == "four"


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("nothing", {}),
        ("stop", {}),
        ("direct", {"text": 7}),
        ("direct", {"text": "x" * 5000}),
        ("pause", {"run": "1"}),
        ("pause", {"run": 9}),
        ("budget", {"changes": {"attempts": None}}),
        ("budget", {"changes": {"nothing": 1}}),
        ("budget", {"changes": {"attempts": -1}}),
        ("budget", {"changes": {"attempts": 1.5}}),
        ("budget", {"changes": {"attempts": True}}),
        ("budget", {"changes": []}),
        ("discard", {"node": "1", "why": "x"}),
        ("discard", {"node": "--help", "why": "x"}),
        ("restore", {"node": "1.1", "why": "x"}),
        ("accept", {"node": "1.1", "why": "x", "confirm": "1.1"}),
    ],
)
async def test_what_makes_no_sense_is_refused_with_a_reason(story, name, body):
    before = history(story).number
    async with serve(story.top) as client:
        reply = await client.act(name, **body)
        assert (reply.status, reply.data["code"]) == (400, "misuse")
        assert reply.data["error"]
    assert history(story).number == before
