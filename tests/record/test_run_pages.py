"""A run is written part by part, and reads as if it were written as a whole."""

from loopty.kit import codec
from loopty.kit.dataclass import replace
from loopty.record.run_record import RunPages
from loopty.record.workers import WorkerRecord, Workers

from ..views.story import random_story


def test_a_page_from_known_parts_equals_the_page_of_the_whole_run():
    story = random_story(4, 12, control=5)
    pages = RunPages()
    for run in (story.history.runs[1], story.history.runs[1]):
        assert pages.text(run) == codec.text(run)
    before = pages.text(story.history.runs[1])
    story.reserves(500, 0.25)
    story.refuses()
    after = pages.text(story.history.runs[1])
    assert after == codec.text(story.history.runs[1])
    assert after != before


def test_a_run_without_parts_has_none_in_its_page():
    run = random_story(1, 1).history.runs[1]
    bare = codec.build(
        type(run), {key: value for key, value in codec.plain(run).items() if key not in ("parts", "pools")}
    )
    assert RunPages().text(bare) == codec.text(bare)


def test_a_page_follows_what_changes_beside_the_parts():
    pages, run = RunPages(), random_story(1, 1).history.runs[1]
    assert pages.text(run) == codec.text(run)
    other = replace(run, why="another reason")
    assert pages.text(other) == codec.text(other) != pages.text(run)


def test_a_page_of_many_workers_follows_each_of_them():
    pages, run = RunPages(), random_story(1, 1).history.runs[1]
    members = {f"w{number}": WorkerRecord("host", "f0", "none", float(number)) for number in range(40)}
    for name, record in [("w3", replace(members["w3"], trial="1.2#1")), ("ü\n", members["w1"]), ("w3", None)]:
        members = {key: value for key, value in {**members, name: record}.items() if value}
        run = run.with_part(Workers(members, lost_leases=2, last_loss='it said "no"', most=41))
        assert pages.text(run) == codec.text(run)
