"""Past versions, and nodes that a directive names, in whole small runs."""

from loopty.domain.trial import Pool
from loopty.record.nodes import ProposalRefused
from loopty.record.verdicts import Incumbents

from .conftest import Place
from .state import events

ANCHORS = '[anchors]\nversions = ["v1", "v2", "HEAD"]\n'


def make_versions(place: Place) -> None:
    """Tags v1, which was better, and v2, which was worse than what is there now."""
    for tag, text in (("v1", "90\n"), ("v2", "1\n"), ("now", "3\n")):
        place.write("src/x.txt", text)
        place.commit(tag)
        place.git("tag", tag)


def write_task(place: Place, attempts: int, anchors: str = ANCHORS) -> None:
    place.write("loopty.toml", TASK.format(attempts=attempts, anchors=anchors))


TASK = """
seed = 1
{anchors}
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
[access]
write = ["src/**"]
[noise]
repeat = "never"
[pools]
attempts = {attempts}
[proposer]
kind = "mutate"
"""


def test_past_versions_are_measured_once_and_the_search_starts_from_the_better_one(code_place):
    place = code_place
    write_task(place, 2)
    make_versions(place)
    place.trust()
    done = place.loopty("optimize", "--quiet")
    assert "version HEAD" in done.stderr, "it is the baseline, and the user learns it"
    history = place.history()
    versions = [history[node] for node in history.nodes_of_pool(1, Pool.VERSION)]
    assert {node.summary[:10]: history.score(node) for node in versions} == {"version v1": 90.0, "version v2": 1.0}
    assert {node.id.parent for node in versions} == {"1"}
    first = next(node for node in versions if history.score(node) == 90)
    assert Incumbents.of(history.runs[1], Pool.VERSION).best == first.id
    attempts = [node for node in history.nodes(1, Pool.ATTEMPT) if node.id.parent]
    assert len(attempts) == 2, "versions are no attempts"
    assert any(first.summary in node.parent_reason and node.id.parent == first.id for node in attempts)
    assert "past version" in place.loopty("tree").stdout
    best = Incumbents.of(history.runs[1], Pool.ATTEMPT).best
    assert bool(place.json("status").get("versions")) == (history.score(history[best]) <= 90)

    before = len(events(place))
    write_task(place, 3)
    place.trust()
    place.loopty("optimize", "--quiet")
    assert len(events(place)) > before
    assert len(place.history().nodes_of_pool(1, Pool.VERSION)) == 2, "each is measured once"


def test_a_version_with_the_files_of_a_measured_one_is_refused_once_and_the_search_goes_on(code_place):
    place = code_place
    write_task(place, 1, '[anchors]\nversions = ["v1"]\n')
    make_versions(place)
    place.trust()
    place.loopty("optimize", "--quiet", code=None)
    write_task(place, 2, '[anchors]\nversions = ["again"]\n')
    again = place.git("commit-tree", "-m", "again", "v1^{tree}").strip()
    place.git("tag", "again", again)
    place.trust()
    place.loopty("optimize", "--quiet", code=None)
    refused = [one for one in events(place) if isinstance(one, ProposalRefused) and one.pool is Pool.VERSION]
    assert [one.reason for one in refused] == ["the same as @2"]
    assert len(place.history().nodes_of_pool(1, Pool.ATTEMPT)) == 3, "the baseline and two attempts"


def test_a_version_that_is_no_commit_is_refused_before_a_run_begins(code_place):
    write_task(code_place, 1, '[anchors]\nversions = ["--all"]\n')
    code_place.commit()
    code_place.trust()
    refused = code_place.loopty("optimize", "--quiet", code=2)
    assert "no commit of this repository" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_directive_names_the_nodes_that_changes_start_from(code_place):
    place = code_place
    write_task(place, 3, "")
    place.commit()
    place.trust()
    place.loopty("optimize", "--quiet")
    shown = place.json("direct", "Stay small.", "--build-on", "1.1")
    assert shown["build_on"] == ["1.1"]
    assert shown["directive"] == "Stay small.\nBuild on @2."
    write_task(place, 6, "")
    place.trust()
    place.loopty("optimize", "--quiet")
    newest = list(place.history().nodes(1, Pool.ATTEMPT))[4:]
    assert newest
    assert all(node.id.is_within("1.1") for node in newest)
    assert all(node.parent_reason == "the directive says: build on @2" for node in newest)
    for arguments, words in (
        (("--not-below", "1"), "every node is below the baseline"),
        (("--not-below", "1.1"), "cannot build on @2"),
        (("--build-on", "1.9"), "1.9"),
    ):
        assert words in place.loopty("direct", *arguments, code=2).stderr
    assert place.json("direct", "--clear")["build_on"] == []
