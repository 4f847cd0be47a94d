"""Several coding agents that share the work, and what follows when one of them does not get on."""

import asyncio
from collections import Counter

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import AgentOutage, Outage
from loopty.domain.proposal import Objection, Proposal, ProposerStall, Refusal
from loopty.domain.trial import Pool, Verdict
from loopty.features.agents.proposer import AgentFleet, AgentProposer, FleetMember, search_stall
from loopty.proposers.agent.stalls import Stall, StallKind
from loopty.proposers.agent.stream import AgentEnd
from loopty.proposers.agent.work import AgentChoice, AgentWork, SessionEnd, end_of_stall
from loopty.proposers.selectors.choices import RootSelector
from loopty.record.agent_accounts import AgentAccounts, AgentBenched, AgentPartEnded
from loopty.record.nodes import ProposalRefused
from loopty.show.agents import agent_rows

from .desk import Desk, Plain


class Sessions:
    """Sessions that end at once, as told, and record their ends as the real ones do."""

    def __init__(self, desk, choice, how):
        self.desk, self.choice, self.how = desk, choice, how
        self.prompts, self.noted = [], []

    async def work_left_behind(self, ask, others=()):  # noqa: ARG002
        return None

    async def work(self, ask, parent, prompt):  # noqa: ARG002
        self.prompts.append(prompt)
        how = self.how(len(self.prompts))
        if isinstance(how, Outage):
            raise how
        end = how if isinstance(how, SessionEnd) else SessionEnd(AgentEnd.CLEAN)
        kind = end.stall.kind if end.stall else ""
        call = f"{self.choice.name}{len(self.prompts)}"
        configuration = self.choice.configuration
        self.desk.tell(
            AgentPartEnded(1, Pool.ATTEMPT, configuration, call, parent.id, end.end, 10, 1.0, end.reason, kind)
        )
        edits = how if isinstance(how, dict) else {"a.py": call}
        return AgentWork(parent.id, end, f"SUMMARY: {call}", edits, calls=(call,))

    def note_search_stall(self, ask, stall):  # noqa: ARG002
        self.noted.append(stall)


STALLED = end_of_stall(Stall(StallKind.SILENT, "nothing printed for 45 s", 45.0))


class Fleet:
    def __init__(self, tmp_path, now=0.0, **members):
        """Each member: its weight, and how its n-th session goes."""
        self.desk, self.now = Desk(tmp_path), now
        choices = {name: AgentChoice("command", name=name, **more) for name, (_, _, *rest) in members.items()
                   for more in (rest[0] if rest else {},)}  # fmt: skip
        self.sessions = {name: Sessions(self.desk, choices[name], how) for name, (_, how, *_) in members.items()}
        self.fleet = AgentFleet(
            [
                FleetMember(choices[name], self.sessions[name], RootSelector(), Plain(), weight)
                for name, (weight, *_) in members.items()
            ],
            lambda: self.now,
        )
        self.proposer = AgentProposer(self.fleet)

    def propose(self):
        answer = asyncio.run(self.proposer.propose(self.desk.ask()))
        if isinstance(answer, Proposal):
            self.desk.adds(answer)
        elif isinstance(answer, Refusal):
            self.desk.tell(
                ProposalRefused(1, Pool.ATTEMPT, answer.operator, answer.reason, answer.objection, answer.calls)
            )
        return answer

    def account(self, name):
        configuration = self.sessions[name].choice.configuration
        return AgentAccounts.of(self.desk.run).account(configuration)


def edit(_number):
    return {"a.py": "x"}


def test_sessions_are_shared_by_weight_and_a_new_process_goes_on_the_same(tmp_path):
    fleet = Fleet(tmp_path, a=(3, edit), b=(1, edit))
    turns = Counter(fleet.propose().operator for _ in range(8))
    assert turns == {"a": 6, "b": 2}
    fleet.proposer = AgentProposer(AgentFleet(fleet.fleet.members, lambda: 0.0))
    turns = Counter(fleet.propose().operator for _ in range(8))
    assert turns == {"a": 6, "b": 2}


def test_the_work_of_a_stalled_session_goes_elsewhere(tmp_path):
    fleet = Fleet(tmp_path, a=(5, lambda number: STALLED if number == 1 else {"a.py": "x"}), b=(1, edit))
    first = fleet.propose()
    assert isinstance(first, ProposerStall)
    assert first.operator == "a"
    assert fleet.propose().operator == "b"
    assert fleet.propose().operator == "a"  # it may go on after that
    assert (fleet.account("a").lost_sessions, fleet.account("a").lost_tokens) == (1, 10)


def test_an_agent_whose_model_is_out_rests_while_others_work_and_alone_it_ends_the_session(tmp_path):
    outage = Outage("no network")
    fleet = Fleet(tmp_path, a=(9, lambda number: outage if number == 1 else {"a.py": "x"}), b=(1, edit))
    assert isinstance(fleet.propose(), ProposerStall)
    assert [fleet.propose().operator for _ in range(3)] == ["b", "b", "b"]
    fleet.now += 301
    assert fleet.propose().operator == "a"
    alone = Fleet(tmp_path, a=(1, lambda _: outage))
    with pytest.raises(Outage):
        alone.propose()
    both = Fleet(tmp_path, a=(1, lambda _: outage), b=(1, lambda _: outage))
    assert isinstance(both.propose(), ProposerStall)
    assert isinstance(both.propose(), ProposerStall)
    with pytest.raises(Outage):
        both.propose()


def test_starts_that_fail_side_by_side_are_one_and_later_ones_are_awaited_longer(tmp_path):
    fleet = Fleet(tmp_path, a=(1, edit))
    (member,) = fleet.fleet.members
    failed = Stall(StallKind.START, "exit code 1", 0.1)
    for seconds in (2.0, 10.0, 60.0, 300.0):
        for _ in range(3):
            fleet.fleet.note_stall(member, failed)
        assert fleet.fleet.pause(fleet.desk.ask()) == seconds
        fleet.now += seconds
    with pytest.raises(AgentOutage, match="at each of 5 starts: exit code 1"):
        fleet.fleet.note_stall(member, failed)


def test_a_benched_configuration_gets_no_work_until_its_time_is_over(tmp_path):
    fleet = Fleet(tmp_path, a=(1, edit), b=(1, edit))
    fleet.desk.tell(AgentBenched(1, fleet.sessions["a"].choice.configuration, "it hung", 100.0))
    assert {fleet.propose().operator for _ in range(4)} == {"b"}
    (row, *_) = [row for row in agent_rows(fleet.desk.history, fleet.desk.run, 40.0) if row.name == "a"]
    assert (row.benched_seconds, row.bench_reason) == (60.0, "it hung")
    fleet.now = 101.0
    assert fleet.propose().operator == "a"
    fleet.desk.tell(
        *(AgentBenched(1, fleet.sessions[name].choice.configuration, "it hung", 200.0) for name in "ab")
    )
    with pytest.raises(Exhausted, match=r"a is benched until .* because it hung; b is benched"):
        fleet.propose()


def test_what_one_agent_tried_reaches_the_others_and_each_has_its_part(tmp_path):
    fleet = Fleet(
        tmp_path,
        a=(
            1,
            lambda _: {"src/a.py": "x", "src/b.py": "y"},
            {"surface": ("src/a*",), "prompt": "Think of caches."},
        ),
        b=(1, edit),
    )
    proposal = fleet.propose()
    assert list(proposal.edits) == ["src/a.py"]
    assert "left out src/b.py" in proposal.summary
    (prompt,) = fleet.sessions["a"].prompts
    assert "Change only src/a*" in prompt
    assert "Think of caches." in prompt
    fleet.propose()
    assert "Change only" not in fleet.sessions["b"].prompts[0].partition("# What to do")[2].partition("SUMMARY")[2]


def test_results_are_counted_for_each_configuration(tmp_path):
    fleet = Fleet(tmp_path, a=(1, edit), b=(1, lambda _: {}))
    first, second = fleet.propose(), fleet.propose()
    assert isinstance(second, Refusal)
    fleet.desk.measure(NodeId("1.1"), 3.0, Verdict.KEPT)
    rows = {row.name: row for row in agent_rows(fleet.desk.history, fleet.desk.run, 0.0)}
    assert (rows["a"].nodes, rows["a"].kept, rows["a"].best.node, rows["a"].refused) == (1, 1, "1.1", 0)
    assert (rows["b"].nodes, rows["b"].kept, rows["b"].best, rows["b"].refused) == (0, 0, None, 1)
    assert first.operator == "a"


def test_a_search_that_does_not_get_on_is_seen_and_told(tmp_path):
    fleet = Fleet(tmp_path, a=(1, edit))
    for number in range(1, 4):
        fleet.propose()
        assert search_stall(fleet.desk.history, fleet.account("a")) is None
        fleet.desk.measure(NodeId(f"1.{number}"), None, Verdict.REJECTED, "the gate tests failed")
    stall = search_stall(fleet.desk.history, fleet.account("a"))
    assert stall.kind is StallKind.SAME_FAILURE
    assert "the gate tests failed" in stall.reason
    fleet.propose()
    assert fleet.sessions["a"].noted == [stall]
    assert "Choose another approach" in fleet.sessions["a"].prompts[-1]


@pytest.mark.parametrize(
    ("objection", "count", "kind"),
    [(Objection.DUPLICATE, 2, StallKind.SAME_CHANGE), (Objection.REPLY, 3, StallKind.IDLE)],
)
def test_the_same_change_or_none_again_and_again_is_a_search_stall(tmp_path, objection, count, kind):
    fleet = Fleet(tmp_path, a=(1, edit))
    fleet.propose()
    for _ in range(count):
        assert search_stall(fleet.desk.history, fleet.account("a")) is None
        fleet.desk.tell(ProposalRefused(1, Pool.ATTEMPT, "a", "again", objection, ("c",)))
    assert search_stall(fleet.desk.history, fleet.account("a")).kind is kind
    fleet.propose()
    assert search_stall(fleet.desk.history, fleet.account("a")) is None


def test_effects_below_the_noise_are_a_search_stall(tmp_path):
    fleet = Fleet(tmp_path, a=(1, edit))
    for number in range(1, 5):
        fleet.propose()
        fleet.desk.measure(NodeId(f"1.{number}"), 0.0)
    assert search_stall(fleet.desk.history, fleet.account("a")).kind is StallKind.BELOW_NOISE
