"""kill -9 around past versions and audits: nothing is measured twice, and decisions stay the same."""

import random
import subprocess
import sys

from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Pool
from loopty.engine.protocols import Ask
from loopty.ledgers.sqlite import MemoryLedger, SqliteLedger
from loopty.proposers.selectors.choices import BestSelector
from loopty.proposers.selectors.judged_nodes import SteeredSelector
from loopty.record.directives import AuditAnchors, AuditConcluded
from loopty.record.nodes import NodeAdded
from loopty.record.trials import SplitShown, TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged

from .conftest import Place
from .state import events
from .test_anchors import make_versions
from .test_kill_stages import all_events, assert_all_closed, kill_after_event, started
from .test_same_seed import clone, grown

TASK = """
seed = 1
width = 1
[anchors]
versions = ["v1", "v2"]
[benchmark]
command = "sleep 0.2; sh bench.sh"
files = ["bench.sh"]
timeout_seconds = 60
[audit]
command = 'n=$(cat src/x.txt); echo "{\\"score\\": $((n > 50 ? 1 : n + 1))}" > "$EVO_RESULT_PATH"'
files = ["heldout.txt"]
[access]
write = ["src/**"]
[noise]
repeat = "never"
[pools]
attempts = 2
[proposer]
kind = "mutate"
"""

KILLED = """
import os, signal
from loopty.session import audits
from loopty.cli.main import main
audits.conclude_audits = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main()
"""


def write_task(place: Place) -> None:
    place.write("heldout.txt", "what nobody sees\n")
    make_versions(place)
    place.write("loopty.toml", TASK)
    place.commit()


def whole_trials(place: Place) -> list[tuple[NodeId, Pool]]:
    """The trials that ran to their end, in order."""
    pools = {(one.node, one.number): one.pool for one in events(place) if isinstance(one, TrialStarted)}
    ended = [one for one in events(place) if isinstance(one, TrialEnded)]
    return [(one.node, pools[one.node, one.number]) for one in ended if one.outcome.ending is not Ending.CANCELLED]


def versions_judged(place: Place) -> int:
    history = place.history()
    judged = [one.node for one in all_events(place) if isinstance(one, NodeJudged)]
    return sum(history[node].pool is Pool.VERSION for node in judged)


def replay_parents(place: Place) -> list[tuple[NodeId, str]]:
    """The parent of each attempt with the reason, chosen again from the events before it."""
    history, selector, found = MemoryLedger().history(), SteeredSelector(BestSelector()), []
    for item in SqliteLedger(place.state / "ledger.sqlite").read():
        if isinstance(item.event, NodeAdded) and item.event.pool is Pool.ATTEMPT and item.event.node.parent:
            selection = selector.select(Ask(history, 1, Pool.ATTEMPT, random.Random))
            found.append((selection.node.id, selection.reason))
        history.apply(item)
    return found


def test_a_run_that_is_killed_around_its_past_versions_grows_the_same_tree(code_place):
    write_task(code_place)
    twin = clone(code_place, "twin")
    twin.git("fetch", "-q", "--tags")
    twin.trust()
    code_place.loopty("optimize", "--quiet")
    for is_reached in (
        lambda: started(twin, Pool.VERSION) >= 1,  # while the first one is measured
        lambda: all_events(twin) and versions_judged(twin) >= 1,  # between the two
        lambda: started(twin, Pool.VERSION) >= 3,  # while the last one is measured
    ):
        kill_after_event(twin, is_reached, "optimize", "--quiet")
    twin.loopty("optimize", "--quiet")
    assert_all_closed(twin.history().runs[1])
    assert whole_trials(twin) == whole_trials(code_place)
    assert len(whole_trials(twin)) == 5, "the baseline, two versions and two attempts, each once"
    assert grown(twin) == grown(code_place)
    for place in (code_place, twin):
        attempts = list(place.history().nodes(1, Pool.ATTEMPT))[1:]
        assert replay_parents(place) == [(node.id.parent, node.parent_reason) for node in attempts]
    assert any("version v1" in reason for _, reason in replay_parents(twin))


def try_number(place: Place, number: int) -> str:
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/x.txt").write_text(f"{number}\n")
    place.loopty("run", made["node"], code=None)
    return made["node"]


def test_an_audit_that_is_killed_before_its_conclusion_steers_the_next_session(code_place):
    place = code_place
    place.write("heldout.txt", "what nobody sees\n")
    place.write("loopty.toml", TASK.replace("attempts = 2", "attempts = 4").replace('"v1", "v2"', ""))
    place.commit()
    place.loopty("run", "1")
    honest, overfit = try_number(place, 10), try_number(place, 80)
    place.loopty("audit", honest)
    subprocess.run([sys.executable, "-c", KILLED, "audit", overfit], cwd=place.top, capture_output=True)
    assert AuditAnchors.of(place.history().runs[1]).has_new_audit
    shown = [one for one in events(place) if isinstance(one, SplitShown)]
    assert [one.node for one in shown] == ["1", honest, overfit]
    place.loopty("optimize", "--quiet")
    found = [one for one in events(place) if isinstance(one, SplitShown | AuditConcluded)]
    assert [type(one) for one in found] == [SplitShown, SplitShown, AuditConcluded, SplitShown, AuditConcluded]
    known = AuditAnchors.of(place.history().runs[1])
    assert (known.refuted, known.has_new_audit) == ((overfit,), False)
    attempts = list(place.history().nodes(1, Pool.ATTEMPT))[3:]
    assert len(attempts) == 2
    assert attempts[0].against == honest, "not the score that an audit refuted"
    assert not any(node.id.is_within(overfit) for node in attempts)
