"""Every verb as a method: a notebook or an agent can do what the command line can."""

import pytest

import loopty
from loopty import Campaign
from loopty.cli.verbs import VERBS
from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.trial import Verdict
from loopty.session.reader import CampaignReader

from .conftest import python_page_examples

METHODS = {
    "init": "check",
    "evolve": "optimize",
    "show": "detail",
    "gate": "add_gate",
    "apply": "make_branch",
    "pr": "summary",
    "branch": "make_node_branch",
    "try": "try_command",
    "dashboard": None,  # a room of its own: dashboard/
    "gc": "collect_garbage",
    "models": None,  # models belong to the task file, not to its experiments: session/models.py
    "doctor": None,  # about the machine
    "mode": "mode_settings",
    "ledger": "ledger_choice",
    "notify": None,  # about the user's own settings: features/notices/settings.py
    "hook": None,  # for hosts of agents: features/agents/hosts/hooks.py
    "install": None,  # about the user's own settings: features/agents/hosts/installation.py
    "uninstall": None,
    "tool": None,  # for agents: tools/calls.py
    "mcp": None,
    "worker": None,  # for a campaign that another machine drives: features/fleet/worker.py
}


def test_every_verb_has_a_method():
    methods = {METHODS.get(verb, verb) for verb in VERBS} - {None}
    assert {name for name in methods if not hasattr(Campaign, name)} == set()


def test_the_reader_has_no_method_that_changes_anything():
    assert issubclass(Campaign, CampaignReader)
    assert not hasattr(CampaignReader, "optimize")


def test_campaign_is_imported_when_it_is_first_used():
    assert loopty.Campaign is Campaign
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = loopty.Nonsense


def test_before_the_first_run_questions_say_what_to_do(campaign):
    with pytest.raises(Misuse, match="loopty run"):
        campaign.status()


def test_a_run_from_start_to_branch(campaign, code_place):
    finish = campaign.optimize()
    assert finish.sound
    assert "attempt trials are spent" in finish.reason
    fresh = Campaign(code_place.top)
    best = fresh.best()
    assert fresh.status().best.node == best
    assert fresh.leaderboard(top=1)[0].node.id == best
    assert fresh.report().best[0].node.id == best
    assert fresh.detail(best).node.verdict is Verdict.KEPT
    assert "+++ b/src/x.txt" in fresh.diff(best, baseline=True).patch
    assert {row.node.id for row in fresh.tree()} == set(fresh.history.ids)
    made = fresh.make_branch(best, "winner")
    assert code_place.git("rev-parse", "winner").strip() == made.commit
    assert campaign.replay(best).is_same
    artifact = fresh.export(best)
    assert artifact.path.exists()


def test_the_commit_of_an_experiment_by_hand_is_held_before_the_verb_ends(campaign, code_place):
    campaign.run("1")
    draft = campaign.new(parent="1")
    (draft.folder / "src/x.txt").write_text("9\n")
    Campaign(campaign.context.state.top).run(draft.node)  # as another process
    made = code_place.commit_of(draft.node)
    assert code_place.git("show", f"{made}:src/x.txt") == "9\n"
    assert made in code_place.git("rev-list", "refs/loopty/runs/1").split()


def test_an_experiment_by_hand(campaign):
    baseline = campaign.run("1")
    assert baseline.verdict is Verdict.KEPT
    assert campaign.check().problem is None
    draft = campaign.new(parent="1", message="a nine")
    (draft.folder / "src/x.txt").write_text("9\n")
    assert campaign.check(draft.node).outcome.metrics == {"score": 9.0}
    campaign.add_gate("1", Gate("small", metric="score", maximum=8.5))
    judged = campaign.run(draft.node)
    assert (judged.verdict, judged.outcome.metrics) == (Verdict.REJECTED, {"score": 9.0})
    assert [gate.name for _, gate in Campaign(campaign.context.state.top).gates(draft.node)] == ["small"]
    (result,) = campaign.check_gates(draft.node).values()
    assert "above 8.5" in result.refusal


def test_a_directive_is_set_and_read_without_a_task_file(campaign, code_place):
    campaign.run("1")
    (code_place.top / "loopty.toml").unlink()
    reader = Campaign(code_place.top)
    reader.direct("Try a heap.")
    assert reader.directive() == "Try a heap."
    reader.direct("")
    assert reader.directive() == ""


def test_lines_for_a_person_go_to_the_caller(campaign, lines, code_place):
    campaign.run("1")
    code_place.write("src/x.txt", "7\n")
    campaign.new()
    assert lines == [
        "run 1 continues from its own baseline; your files have changed since (--new-run starts from them)"
    ]


def test_the_examples_of_the_python_page_run_in_their_order(code_place):
    blocks = python_page_examples(code_place.top)
    assert len(blocks) == 3
    names = {"new_source": "9999\n"}
    for block in blocks:
        exec(block.replace("src/kernel.c", "src/x.txt"), names)
    assert code_place.git("branch", "--list", "loopty-best-*")
    assert names["judged"].outcome.metrics["score"] == 9999
    assert names["change"].withdrawn == (names["judged"].id,)


def test_a_withdrawal_shows_in_what_the_same_campaign_reports(campaign):
    campaign.run("1")
    draft = campaign.new(parent="1")
    (draft.folder / "src/x.txt").write_text("9\n")
    campaign.run(draft.node)
    assert campaign.report().status.best.node == draft.node
    change = campaign.discard(draft.node, "not wanted")
    assert change.best == campaign.best() == "1"
    (withdrawn,) = campaign.report().tally.withdrawn
    assert (withdrawn.node, withdrawn.before, withdrawn.why) == (draft.node, Verdict.KEPT, "not wanted")


async def test_it_runs_inside_of_an_event_loop_as_well(campaign):
    assert campaign.check().problem is None
    assert campaign.optimize().reason == "all 8 attempt trials are spent"
