"""kill -9 while past versions are measured and after an audit: nothing is measured twice, decisions stay the same."""

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.record.audit_anchors import AuditAnchors, AuditConcluded
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
command = 'n=$(cat src/x.txt); echo "{\\"score\\": $((n > 50 ? 0 : n))}" > "$EVO_RESULT_PATH"'
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
