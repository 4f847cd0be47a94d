"""Pages of a pool are found by handle, in both databases, whatever other nodes are between."""

import random

import pytest

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.ledgers import row_pages
from loopty.ledgers import row_pages as pool_places
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.testing.ledger_suite import run_events

_NODES = 120
_WALK = 7


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request, tmp_path):
    if request.param == "sqlite":
        opened = open_ledger(f"sqlite:{tmp_path / 'ledger.sqlite'}")
    else:
        server = request.getfixturevalue("postgres")
        opened = open_ledger(server.url(f"places_{random.getrandbits(48)}"))
    yield opened
    opened.close()


def add_nodes(recorder, pools, run):
    commit, tree = ObjectName("c0" * 20), ObjectName("e0" * 20)

    def events(_):
        for number, pool in enumerate(pools, 1):
            yield NodeAdded(NodeId(str(run)).child(number), pool, "hand", "", commit, tree, {"x": float(number)})

    recorder.record(events)


@pytest.mark.parametrize("other", [0.0, 0.3], ids=["without others between", "with others between"])
def test_every_page_has_the_nodes_at_its_positions(ledger, monkeypatch, other):
    for module in (pool_places, row_pages):
        monkeypatch.setattr(module, "LONGEST_WALK", _WALK)
    rng, recorder = random.Random(3), Recorder(ledger, lambda: 0.0)
    for run in (1, 2):
        recorder.record(lambda _, run=run: run_events(run))
        pools = [Pool.CONTROL if rng.random() < other else Pool.ATTEMPT for _ in range(_NODES)]
        add_nodes(recorder, pools, run)
    pages = row_pages.RowPages(ledger._database)
    for run in (1, 2):
        whole = [node for node in pages.ids() if node.run == run]
        expected = [node for node in whole if recorder.history[node].pool is Pool.ATTEMPT]
        for _ in range(60):
            start, stop = sorted(rng.choices(range(len(expected) + 1), k=2))
            assert list(pages.nodes_of_pool(run, Pool.ATTEMPT, start, stop)) == expected[start:stop], (start, stop)


def test_no_page_walks_far(ledger, monkeypatch):
    """Wherever it is, a page leaves out less than the longest walk, and later pages walk from a mark."""
    for module in (pool_places, row_pages):
        monkeypatch.setattr(module, "LONGEST_WALK", _WALK)
    recorder = Recorder(ledger, lambda: 0.0)
    recorder.record(lambda _: run_events())
    add_nodes(recorder, [Pool.CONTROL if number % 5 == 0 else Pool.ATTEMPT for number in range(_NODES)], 1)
    places = pool_places.PoolPlaces(ledger._database)
    size = row_pages.RowPages(ledger._database).pool_size(1, Pool.ATTEMPT, 10**9)
    assert max(places.nearest(1, Pool.ATTEMPT, position, size).offset for position in range(size)) == _WALK - 1
