"""A run is written part by part, its long mappings in small pages of their own, and reads as a whole."""

import random

import pytest
from loopty.record.pages import BLOCK_SIZE, LONG, RunPages

from loopty.kit import codec
from loopty.kit.records import replace
from loopty.record.calls import Reservation, Spend
from loopty.record.workers import WorkerRecord, Workers

from ..show.story import random_story


class Saved:
    """The pages of runs as a ledger has them."""

    def __init__(self):
        self.pages = {}
        self.writer = RunPages()

    def save(self, run):
        """Save what changed; returns the keys."""
        changed = {key: page.body for key, page in self.writer.changed_pages(run).items()}
        self.pages |= changed
        return list(changed)

    def read(self):
        """The run as another process reads it."""
        (run,) = RunPages().read(self.pages)
        return run

    def read_again(self):
        """The run as the same process reads it after another one wrote."""
        (run,) = self.writer.read(self.pages)
        return run


@pytest.fixture
def saved():
    return Saved()


@pytest.fixture
def run():
    return random_story(1, 1).history.runs[1]


def members(count, first=0):
    return {
        f"w{number}": WorkerRecord("host", "f0", "none", float(number)) for number in range(first, first + count)
    }


def test_a_page_from_known_parts_equals_the_page_of_the_whole_run(saved):
    story = random_story(4, 12, control=5)
    for run in (story.history.runs[1], story.history.runs[1]):
        saved.save(run)
        assert saved.pages == {"run 1": codec.text(run)}
    before = dict(saved.pages)
    story.reserves(500, 0.25)
    story.refuses()
    saved.save(story.history.runs[1])
    assert saved.pages == {"run 1": codec.text(story.history.runs[1])} != before


def test_a_run_without_parts_has_none_in_its_page(saved, run):
    bare = codec.build(
        type(run), {key: value for key, value in codec.plain(run).items() if key not in ("parts", "pools")}
    )
    saved.save(bare)
    assert saved.pages == {"run 1": codec.text(bare)}


def test_a_page_follows_what_changes_beside_the_parts(saved, run):
    saved.save(run)
    saved.save(replace(run, why="another reason"))
    assert saved.read().why == "another reason"


def test_few_workers_stay_in_the_page_of_the_run(saved, run):
    run = run.with_part(Workers(members(LONG - 1)))
    assert saved.save(run) == ["run 1"]
    assert saved.pages["run 1"] == codec.text(run)


def test_one_of_many_workers_changes_one_small_page(saved, run):
    many = members(1000)
    saved.save(run.with_part(Workers(many)))
    changed = saved.save(run.with_part(Workers({**many, "w500": replace(many["w500"], trial="1.2#1")})))
    assert len(changed) == 2, "the run's page, and one of workers"
    assert all(len(saved.pages[key]) < BLOCK_SIZE * 200 for key in changed if key != "run 1")
    assert "w500" not in saved.pages["run 1"]
    assert Workers.of(saved.read()).members["w500"].trial == "1.2#1"


def test_the_place_of_an_entry_that_has_gone_is_used_again(saved, run):
    many = members(LONG)
    saved.save(run.with_part(Workers(many)))
    count = len(saved.pages)
    for number in range(3 * LONG):
        many = {**dict(list(many.items())[1:]), **members(1, LONG + number)}
        saved.save(run.with_part(Workers(many)))
        assert list(Workers.of(saved.read()).members.items()) == list(many.items())
    assert len(saved.pages) == count


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_was_written_last_in_the_same_order(saved, run, seed):
    rng = random.Random(seed)
    workers, calls = {}, {}
    for step in range(60):
        for _ in range(rng.randint(0, 12)):
            name = rng.choice(["ü\n", '"', *(f"w{number}" for number in range(60))])
            if rng.random() < 0.3 or (step > 40 and rng.random() < 0.6):
                workers, calls = ({k: v for k, v in some.items() if k != name} for some in (workers, calls))
            else:
                workers = {**workers, name: WorkerRecord("host", "f0", "none", rng.random())}
                calls = {**calls, name: Reservation("evolver", step, 0.5, "me")}
        run = run.with_part(Workers(workers, lost_leases=step)).with_part(Spend(calls, {"evolver": step}))
        saved.save(run)
        found = saved.read_again() if rng.random() < 0.3 else saved.read()
        assert codec.plain(found) == codec.plain(run)
        assert list(Workers.of(found).members.items()) == list(workers.items())
        assert list(Spend.of(found).reservations.items()) == list(calls.items())


def test_a_part_that_was_read_and_not_used_is_written_as_it_is(saved, run):
    run = run.with_part(Workers(members(40), most=40))
    saved.save(run)
    before = dict(saved.pages)
    assert saved.save(replace(saved.read_again(), why="another reason")) == ["run 1"]
    assert {key for key in before if before[key] != saved.pages[key]} == {"run 1"}
    assert Workers.of(saved.read()) == Workers.of(run)


def test_after_reading_only_what_changes_is_written(saved, run):
    saved.save(run.with_part(Workers(members(40))))
    again = saved.read_again()
    workers = Workers.of(again)
    changed = {**workers.members, "w9": replace(workers.members["w9"], trials=1)}
    assert len(saved.save(again.with_part(replace(workers, members=changed)))) == 2


def test_the_last_entry_that_goes_leaves_the_mapping_empty(saved, run):
    saved.save(run.with_part(Workers(members(40))))
    saved.save(run.with_part(Workers()))
    assert Workers.of(saved.read()) == Workers()
    few = run.with_part(Workers(members(2)))
    assert saved.save(few) == ["run 1"]
    assert Workers.of(saved.read()).members == members(2)
