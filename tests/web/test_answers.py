"""What each path answers."""

import asyncio
import json

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool, Verdict
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.calls import CallReserved
from loopty.record.search_summary import PoolFrozen, PoolMember
from loopty.record.sessions import RunStarted, SessionStarted
from loopty.record.trials import MachineSeen, TrialStarted

from .conftest import HOSTILE, serve, tell
from .story import Story, commit


async def ask(client, path):
    reply = await client.get(f"/api/{path}")
    assert reply.status == 200, reply.body
    assert reply.headers["content-type"].startswith("application/json")
    return reply.data


async def test_the_session_names_runs_and_actions(story):
    async with serve(story.top) as client:
        data = await ask(client, "session")
        assert data["run"] == 1
        assert data["runs"][0]["nodes"] == 7
        assert {"pause", "budget", "restore"} <= set(data["actions"])


async def test_before_the_first_run_the_page_learns_so(top):
    async with serve(top) as client:
        data = await ask(client, "session")
        assert data["run"] is None
        reply = await client.get("/api/overview")
        assert (reply.status, reply.data["code"]) == (400, "misuse")
        assert "loopty run" in reply.data["error"]
        tell(top)
        assert (await ask(client, "session"))["run"] == 1


async def test_the_overview_answers_the_five_questions(story):
    async with serve(story.top) as client:
        data = await ask(client, "overview")
    assert data["state"] == "stopped"
    assert data["gain"]["best"]["node"] == "1.1"
    assert data["gain"]["factor"] == pytest.approx(1.5)
    assert [check["name"] for check in data["real"]["checks"]] == ["uplift", "held-out", "pairs", "integrity"]
    assert data["alerts"][0]["kind"] == "held"
    assert data["counts"] == {
        **dict.fromkeys(("pruned", "rejected", "open"), 0),
        "kept": 2,
        "discarded": 1,
        "inconclusive": 1,
        "failed": 1,
        "held": 1,
        "control": 1,
        "version": 0,
    }
    assert [step["handle"] for step in data["steps"]] == [1, 2]
    money = next(pool for pool in data["cost"]["pools"] if pool["pool"] == "money")
    assert (money["used"], money["limit"]) == (0.25, 5.0)
    role = data["cost"]["roles"][0]
    assert (role["role"], role["model"], role["calls"], role["money_usd"]) == ("evolver", "strong", 1, 0.25)
    assert role["seconds"] > 0
    assert sum(row["seconds"] for row in data["goodput"]["time"]) == 14.0
    assert data["goodput"]["refused"] == 1


@pytest.mark.parametrize("axis", ["experiment", "time", "cost"])
async def test_the_points_have_every_node_with_its_mark(story, axis):
    async with serve(story.top) as client:
        data = await ask(client, f"points?x={axis}&w=400&h=200")
    marks = {point[4]: point[3] for point in data["points"]}
    assert marks["1.2"] == "discarded"
    assert marks["1.3"] == "failed"
    assert marks["1.1.1"] == "held"
    assert marks["1.5"] == "control"
    assert data["y_range"] == [0.5, 1.5], "a held result squeezes no other"
    assert [point[4] for point in data["outliers"]] == ["1.1.1"]
    assert [point[1] for point in data["points"]] == sorted(point[1] for point in data["points"])


async def test_many_nodes_become_cells_and_stay_small(top):
    story = Story(top)
    tell(top)
    commits = ("a" * 40, "b" * 40)
    from loopty.record.nodes import NodeAdded
    from loopty.record.verdicts import NodeJudged

    story.recorder.refresh()
    events = []
    for number in range(6, 3006):
        node = NodeId("1").child(number)
        events += [
            NodeAdded(node, Pool.ATTEMPT, "tpe", f"change {number}", *commits, {"x": number}),
            NodeJudged(node, Verdict.DISCARDED, "worse", NodeId("1")),
        ]
    story.record(*events)
    async with serve(top) as client:
        data = await ask(client, "points?w=960&h=360")
        counted = [count for flat in data["cells"].values() for count in flat[2::3]]
        assert all(count > 0 for count in counted)
        assert sum(counted) + len(data["points"]) == 3007
        assert {point[4] for point in data["points"]} == {"1", "1.1", "1.1.1"}
        assert len((await ask(client, "find?q=change%202999&limit=5"))["hits"]) == 1
        assert (await ask(client, "operators"))["operators"]


async def test_the_log_has_kept_nodes_with_strips_of_all_tries(story):
    async with serve(story.top) as client:
        data = await ask(client, "log")
        rows = {row["id"]: row for row in data["rows"]}
        assert list(rows) == ["1.1", "1"]
        assert rows["1.1"]["best"]
        assert rows["1"]["tries"] == 5
        assert rows["1"]["no_score"]["failed"] == 1
        assert sum(count for _, _, count in rows["1"]["strip"]) == 4
        assert (await client.get("/api/log?limit=100000")).status == 400
        tree = await ask(client, "map")
        assert {node["id"] for node in tree["nodes"]} == {"1", "1.1", "1.1.1"}
        assert tree["nodes"][0]["others"] == {"discarded": 1, "failed": 1, "inconclusive": 1, "control": 1}


async def test_a_node_with_its_parts(story):
    async with serve(story.top) as client:
        data = await ask(client, "node/1.1")
        assert [step["id"] for step in data["path"]] == ["1", "1.1"]
        assert data["metrics"][0]["over_parent"]["percent"] == pytest.approx(50)
        assert data["effect"]["amount"] == 0.5
        assert data["cost"] == {"calls": 1, "tokens": 80, "money_usd": 0.25}
        assert set(data["actions"]) == {"discard", "invalidate", "apply"}
        assert (data["next"], data["previous_kept"]) == ("1.2", "1")
        diff = await ask(client, "node/@2/diff")
        assert "+two" in diff["patch"]
        assert diff["files"] == [{"path": "x.txt", "added": 1, "removed": 1}]
        assert (await ask(client, "node/best/calls"))["calls"][0]["model"] == "strong"
        assert json.loads((await ask(client, "node/1.1/raw"))["text"])["id"] == "1.1"
        assert (await ask(client, "node/1.1/curve"))["rows"] == []
        assert (await client.get("/api/node/9.9")).status == 400
        assert (await client.get("/api/node/1.1/nothing")).status == 404
        assert (await client.get("/api/node/1.1/log?name=stdout.log")).status == 400


async def test_logs_are_read_by_ranges_of_bytes(story):
    folder = story.state.node_folder(NodeId("1.1"))
    folder.write_files({"stdout.log": b"0123456789", "metrics.csv": b"step,score\n1,0.5\n2,0.75\n"})
    folder.below("traces").write_files({"task_a.json": b'{"score": 0.5}'})
    async with serve(story.top) as client:
        part = await ask(client, "node/1.1/log?name=stdout.log&from=-4&bytes=2")
        assert (part["text"], part["from"], part["to"], part["size"]) == ("67", 6, 8, 10)
        assert (await client.get("/api/node/1.1/log?bytes=99999999")).status == 400
        curve = await ask(client, "node/1.1/curve")
        assert (curve["columns"], curve["rows"]) == (["step", "score"], [[1.0, 0.5], [2.0, 0.75]])
        node = await ask(client, "node/1.1")
        assert node["traces"] == [{"task": "task_a", "score": 0.5, "bytes": 14}]
        assert node["has_curve"]
        assert (await ask(client, "node/1.1/trace?task=task_a"))["text"] == '{"score": 0.5}'
        assert (await client.get("/api/node/1.1/trace?task=../../x")).status == 400


async def test_a_running_trial_has_its_newest_row_and_last_line(story):
    story.record(TrialStarted(NodeId("1.4"), 2, Pool.REPLAY, "bench"))
    folder = story.state.node_folder(NodeId("1.4")).below("replay-2").make()
    folder.write_files({"stdout.log": b"first\nlast line\n", "metrics.csv": b"step,loss\n1,0.5\n2,0.25\n3,"})
    async with serve(story.top) as client:
        (row,) = (await ask(client, "running"))["running"]
        assert row["trial"] == "1.4#2"
        assert row["last_line"] == "last line"
        assert (row["step"], row["row"]) == (2.0, {"loss": 0.25})
        tail = await ask(client, "trial/1.4%232/tail?from=-5")
        assert tail["text"] == "line\n"
        assert (await client.get("/api/trial/1.1%231/tail")).status == 400


async def test_nothing_runs_and_nobody_asks_in_a_run_whose_process_died(story):
    story.record(SessionStarted(1, "gone"), TrialStarted(NodeId("1.4"), 2, Pool.REPLAY, "bench"))
    story.record(CallReserved(1, "c2", "evolver", 100, 0.5, "gone", "strong", "diff", NodeId("1"), Pool.ATTEMPT))
    async with serve(story.top) as client:
        seen = await ask(client, "overview")
        assert (seen["state"], seen["now_running"], seen["slots"]["busy"]) == ("interrupted", [], 0)
        assert (await ask(client, "running"))["running"] == []
        data = await ask(client, "agents")
        assert {row["state"] for row in data["agents"]} == {"idle"}
        assert {row["in_flight"] for row in data["models"]} == {0}
        assert data["host"]["busy"] == 0


async def test_compare_parameters_operators_agents_audit(story):
    async with serve(story.top) as client:
        pair = await ask(client, "compare?a=1&b=1.1")
        assert "better" in pair["sentence"]
        assert pair["metrics"][0]["verdict"] == "better"
        assert pair["ancestor"]["id"] == "1"
        runs = await ask(client, "compare-runs?a=1&b=1")
        assert runs["comparable"]
        assert runs["a"]["best"]["node"] == "1.1"
        parameters = await ask(client, "parameters")
        assert [each["name"] for each in parameters["parameters"]] == ["x"]
        operators = {(row["name"], row["pool"]): row for row in (await ask(client, "operators"))["operators"]}
        diff = operators["diff", "attempt"]
        assert (diff["nodes"], diff["kept"], diff["refused"], diff["money_usd"]) == (5, 1, 1, 0.25)
        assert diff["gain_percent"] == pytest.approx(50)
        assert diff["rate_low"] < diff["rate"] < diff["rate_high"]
        agents = await ask(client, "agents")
        assert agents["models"][0]["median_seconds"] == 1.0
        assert {row["name"] for row in agents["agents"]} == {"diff", "random"}
        assert agents["host"]["cores"] >= 1
        audit = await ask(client, "audit")
        assert audit["held"][0]["node"]["id"] == "1.1.1"
        assert audit["flaw"] == ""


@pytest.mark.parametrize(
    ("query", "found"),
    [("held", ["1.1.1"]), ("%232", ["1.1"]), ("1.3", ["1.3"]), ("random", ["1.5"]), ("nothing", []), ("", [])],
)
async def test_find(story, query, found):
    async with serve(story.top) as client:
        assert [hit["id"] for hit in (await ask(client, f"find?q={query}"))["hits"]] == found


async def test_hostile_text_stays_text(story):
    async with serve(story.top) as client:
        reply = await client.get("/api/node/1.2")
        assert reply.data["summary"] == HOSTILE
        assert reply.headers["content-type"].startswith("application/json")
        bad = await client.get("/api/points?x=<script>")
        assert bad.status == 400
        assert bad.headers["content-type"].startswith("application/json")


async def test_answers_are_made_once_for_all_viewers_and_anew_after_an_event(story):
    async with serve(story.top) as client:
        first = await client.get("/api/log")
        story.node("1.6", ("a" * 40, "c" * 40), 0.7, Verdict.DISCARDED)
        async with asyncio.timeout(60):
            while (await client.get("/api/log")).body == first.body:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_record_of_an_older_version_is_folded_with_progress(story):
    ledger = SqliteLedger(story.state.ledger.path_for_programs())
    ledger._database.execute("UPDATE fold SET version = 1")
    seen = []
    import loopty.record.ledger as module

    before, module._EVENTS_PER_SAVE = module._EVENTS_PER_SAVE, 10
    try:
        ledger.history(lambda done, total: seen.append((done, total)))
    finally:
        module._EVENTS_PER_SAVE = before
    assert seen[0][0] == 10
    assert all(done <= total for done, total in seen)


async def test_a_tuned_node_says_how_and_the_run_what_its_slice_is_worth(story, top):
    commits = commit(top, "x.txt", "three\n")
    story.node(
        "1.6", commits, 1.3, Verdict.DISCARDED, params={"x": 1}, tuned=("dev", 0.8, {"x": 4}, "all were made")
    )
    async with serve(top) as client:
        seen = await ask(client, "overview")
        assert {key: seen["tuning"][key] for key in ("slice", "tuned", "moved", "trials")} == {
            "slice": "dev",
            "tuned": 1,
            "moved": 1,
            "trials": 2,
        }
        assert seen["tuning"]["share"] == pytest.approx(0.25)
        assert any(pool["pool"] == "tunes" and pool["used"] == 2 for pool in seen["cost"]["pools"])
        node = await ask(client, "node/1.6")
        assert node["tuned"] == {
            "slice": "dev",
            "trials": 2,
            "reason": "all were made",
            "proposed_score": 0.4,
            "score": 0.8,
            "proposed": {"x": 1},
        }
        assert (await ask(client, "node/1.1"))["tuned"] is None
        assert (await ask(client, "points"))["counts"]["discarded"] == 2, "no tune trial is a node"


async def test_a_run_that_combines_names_its_pool_and_the_search_names_the_run(story, top):
    commits = commit(top, "x.txt", "three\n")
    members = (
        PoolMember(NodeId("1.1"), 1.5, {}, "the best node"),
        PoolMember(NodeId("1.4"), 1.1, {}, "unlike it"),
    )
    story.record(RunStarted(2, "c", Objective(), 0, "combines 2 nodes of run 1", secret="s"))
    story.record(MachineSeen(2, "f", {"cpu": "a cpu"}), PoolFrozen(2, 1, members))
    story.node("2", commits, 1.6, Verdict.KEPT, operator="baseline", merged=(NodeId("1.1"), NodeId("1.4")))
    async with serve(top) as client:
        seen = await ask(client, "overview")
        assert seen["combines"]["run"] == 1
        assert [(row["node"]["id"], row["score"], row["reason"]) for row in seen["combines"]["members"]] == [
            ("1.1", 1.5, "the best node"),
            ("1.4", 1.1, "unlike it"),
        ]
        assert (await ask(client, "overview?run=1"))["combined_by"] == [2]
        assert (await ask(client, "node/2"))["combines"] == seen["combines"]
        assert (await ask(client, "node/1.1"))["combines"] is None


async def test_past_versions_are_marked_and_no_attempts_and_the_page_says_when_one_leads(story, top):
    version = {"pool": Pool.VERSION, "operator": "version", "summary": "version v1 (0123456789)"}
    async with serve(top) as client:
        before = await ask(client, "overview")
    assert before["version_lead"] is None
    story.node("1.6", commit(top, "x.txt", "three\n"), 90.0, Verdict.KEPT, **version)
    async with serve(top) as client:
        seen = await ask(client, "overview")
        assert seen["version_lead"]["node"]["id"] == "1.6"
        assert "is worse than version v1 (0123456789): " in seen["version_lead"]["text"]
        assert seen["steps"] == before["steps"], "the curve of the search is that of its attempts"
        assert seen["uplift"] == before["uplift"]
        rows = {row["id"]: row for row in (await ask(client, "log"))["rows"]}
        assert (rows["1"]["pool"], rows["1.6"]["pool"]) == ("attempt", "version")
        assert (await ask(client, "node/1.6"))["mark"] == "version"
        drawn = {row["id"]: row["pool"] for row in (await ask(client, "map"))["nodes"]}
        assert drawn["1.6"] == "version"
        assert (await ask(client, "node/1.6"))["pool"] == "version"
        assert "version" not in [row["name"] for row in (await ask(client, "operators"))["operators"]]
