"""A run is written part by part, each entry of its mappings in a row of its own, and reads as a whole."""

import random

import pytest

from loopty.kit import codec
from loopty.kit.records import replace
from loopty.ledgers.sqlite import SqliteDatabase
from loopty.record.calls import Reservation, Spend
from loopty.record.database import DigestSum
from loopty.record.run_rows import RunRows, sum_digests_of_runs
from loopty.record.workers import WorkerRecord, Workers

from ..show.story import random_story


class Saved:
    """The rows of runs as a ledger has them."""

    def __init__(self):
        self.db, self.sum = SqliteDatabase(None), DigestSum()
        self.writer = RunRows(self.db, self.sum)

    @property
    def rows(self):
        rows = self.db.rows("SELECT place, run, part, entry, body FROM runs")
        return {place: row for place, *row in rows}

    def save(self, run):
        """Save what changed; returns the parts and fields of the rows that were written."""
        before = self.rows
        self.writer.save(run)
        total = DigestSum()
        assert sum_digests_of_runs(self.db, total) is None
        assert total.total == self.sum.total
        return [(row[1], row[2]) for place, row in self.rows.items() if before.get(place) != row]

    def read(self):
        """The run as another process reads it."""
        (run,) = RunRows(self.db, DigestSum()).read()
        return run

    def read_again(self):
        """The run as the same process reads it after another one wrote."""
        (run,) = self.writer.read()
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


def test_what_is_read_is_what_was_written(saved):
    story = random_story(4, 12, control=5)
    runs = story.recorder.history.runs
    saved.save(runs[1])
    assert codec.plain(saved.read()) == codec.plain(runs[1])
    story.reserves(500, 0.25)
    story.refuses()
    saved.save(runs[1])
    assert codec.plain(saved.read()) == codec.plain(runs[1])


def test_a_row_follows_what_changes_beside_the_parts(saved, run):
    saved.save(run)
    assert saved.save(replace(run, why="another reason")) == [("run", "")]
    assert saved.read().why == "another reason"


def test_one_of_many_workers_changes_one_row(saved, run):
    many = members(1000)
    saved.save(run.with_part(Workers(many)))
    changed = saved.save(run.with_part(Workers({**many, "w500": replace(many["w500"], trial="1.2#1")})))
    assert changed == [("Workers", "members")]
    assert Workers.of(saved.read()).members["w500"].trial == "1.2#1"


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_was_written_last_in_the_same_order(saved, run, seed):
    rng = random.Random(seed)
    workers, calls = {}, {}
    for step in range(60):
        for _ in range(rng.randint(0, 12)):
            name = rng.choice(["ü\n", '"', "a\0b", *(f"w{number}" for number in range(60))])
            if rng.random() < 0.3 or (step > 40 and rng.random() < 0.6):
                workers, calls = ({k: v for k, v in some.items() if k != name} for some in (workers, calls))
            else:
                others = {k: v for k, v in workers.items() if k != name or rng.random() < 0.5}
                workers = {**others, name: WorkerRecord("host", "f0", "none", rng.random())}
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
    assert saved.save(replace(saved.read_again(), why="another reason")) == [("run", "")]
    assert Workers.of(saved.read()) == Workers.of(run)


def test_after_reading_only_what_changes_is_written(saved, run):
    saved.save(run.with_part(Workers(members(40))))
    again = saved.read_again()
    workers = Workers.of(again)
    changed = {**workers.members, "w9": replace(workers.members["w9"], trials=1)}
    assert saved.save(again.with_part(replace(workers, members=changed))) == [("Workers", "members")]


def test_the_last_entry_that_goes_leaves_the_mapping_empty(saved, run):
    saved.save(run.with_part(Workers(members(40))))
    saved.save(run.with_part(Workers()))
    assert Workers.of(saved.read()) == Workers()
    assert ("Workers", "members") not in [tuple(row[1:3]) for row in saved.rows.values()]
