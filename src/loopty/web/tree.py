"""The tree as a log of kept nodes, each with all tries from it; as a map; and a search over its nodes."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.record.history import History
from loopty.record.verdicts import Incumbents
from loopty.show.comparisons import over_parent, run_metric
from loopty.web.answers import change_name
from loopty.web.columns import BRANCHES, HELD, MARKS, OPEN, VERSION, WITHOUT_SCORE
from loopty.web.record import RunFold

_MOST_HITS = 100
_LONGEST_QUERY = 200


def find_nodes(history: History, fold: RunFold, query: str, limit: int) -> dict[str, Any]:
    """Find the newest nodes that match every word of the query."""
    if len(query) > _LONGEST_QUERY or not 1 <= limit <= _MOST_HITS:
        raise Misuse(f"a query has at most {_LONGEST_QUERY} characters, and limit is 1 to {_MOST_HITS}")
    columns, words = fold.columns, query.lower().split()
    marks = {MARKS.index(word) for word in words if word in MARKS}
    texts = [word for word in words if word not in MARKS]
    places = [place for place in _named(history, fold, texts) if not marks or columns.marks[place] in marks]
    where = "name"
    if not places:
        where = "change"
        operators = [name.lower() for name in columns.operator_names]
        places = [
            place
            for place in range(len(columns) - 1, -1, -1)
            if (not marks or columns.marks[place] in marks)
            and all(
                word in columns.summaries[place].lower() or word in operators[columns.operators[place]]
                for word in texts
            )
        ]
    shown = places[:limit] if words else []
    ids = columns.ids(history, shown)
    return {
        "q": query,
        "total": len(places) if words else 0,
        "hits": [
            {
                "id": ids.get(place, ""),
                "handle": columns.handles[place],
                "run": fold.run_number,
                "summary": columns.summaries[place] or change_name(history, history[NodeId(ids[place])]),
                "mark": MARKS[columns.marks[place]],
                "score": columns.score(place),
                "operator": columns.operator(place),
                "at": columns.times[place],
                "where": where,
            }
            for place in shown
        ],
    }


def _named(history: History, fold: RunFold, words: list[str]) -> list[int]:
    """Find the node whose id or short name is the only word."""
    if len(words) != 1:
        return []
    word, columns = words[0], fold.columns
    is_path = word.isdecimal() and len(word) < 12 and int(word) in history.runs
    if word.lstrip("#@").isdecimal() and len(word) < 12 and not is_path:
        place = columns.place_of_handle(int(word.lstrip("#@")))
        return [] if place is None else [place]
    found = columns.place_of(history, NodeId(word))
    if found is None:
        return []
    return [found] if history.runs.get(fold.run_number) else []


BINS = 64
_FEW_KEPT = 60
"""With more kept nodes than this, a side branch is one row."""
_MOST_ROWS = 200
_MOST_NODES = 2_000
_MOST_LANES = 40


class KeptTree:
    """The kept nodes of a run, and what was tried from each."""

    def __init__(self, history: History, fold: RunFold) -> None:
        self.history, self.fold, self.columns = history, fold, fold.columns
        self.sign = run_metric(history, history.runs[fold.run_number]).direction.sign
        self.kept = sorted(fold.kept_places() + self.columns.places_with(VERSION))
        self.tries: defaultdict[int, list[int]] = defaultdict(list)
        """The places of all children of a node that are not kept."""
        self.kept_children: defaultdict[int, list[int]] = defaultdict(list)
        for place, parent in enumerate(self.columns.parents):
            if parent >= 0:
                group = self.kept_children if self.columns.marks[place] in BRANCHES else self.tries
                group[parent].append(place)
        best = Incumbents.of(history.runs[fold.run_number], Pool.ATTEMPT).best
        self.best = self.columns.place_of(history, best) if best else None
        self.best_path: set[int] = set()
        place = -1 if self.best is None else self.best
        while place >= 0:
            self.best_path.add(place)
            place = self.columns.parents[place]

    def branch_of(self, place: int) -> int:
        """Return the first node beside the best path above this one, or itself on the path."""
        while place not in self.best_path and (parent := self._kept_parent(place)) >= 0:
            if parent in self.best_path:
                return place
            place = parent
        return place

    def _kept_parent(self, place: int) -> int:
        parent = self.columns.parents[place]
        while parent >= 0 and self.columns.marks[parent] not in BRANCHES:
            parent = self.columns.parents[parent]
        return parent

    def gain_percent(self, place: int, over: int) -> float | None:
        """Say how much better a node is than another, in percent of that."""
        if over < 0:
            return None
        mine, theirs = self.columns.scores[place], self.columns.scores[over]
        if not (math.isfinite(mine) and math.isfinite(theirs)) or abs(theirs) < 1e-300:
            return None
        return round(100 * self.sign * (mine - theirs) / abs(theirs), 4)


def log_rows(history: History, fold: RunFold, after: int, limit: int, branch: str) -> dict[str, Any]:
    """List the kept nodes, newest first, `limit` of them after the row with the number `after`."""
    tree = KeptTree(history, fold)
    if not 1 <= limit <= _MOST_ROWS:
        raise Misuse(f"limit is 1 to {_MOST_ROWS}")
    branches: defaultdict[int, list[int]] = defaultdict(list)
    for place in tree.kept:
        branches[tree.branch_of(place)].append(place)
    if branch:
        top = tree.columns.place_of(history, NodeId(branch))
        heads = sorted(branches.get(-1 if top is None else tree.branch_of(top), []), reverse=True)
        folded = dict.fromkeys(heads, 0)
    elif len(tree.kept) <= _FEW_KEPT:
        heads, folded = tree.kept[::-1], {}
    else:
        newest = {max(nodes): len(nodes) - 1 for nodes in branches.values()}
        heads, folded = sorted(newest, reverse=True), newest
    page = heads[after : after + limit]
    spread = sorted(
        gain
        for row in page
        for each in tree.tries[row][:2_000]
        if (gain := tree.gain_percent(each, row)) is not None
    )
    low, high = _strip_range(spread)
    ids = tree.columns.ids(history, page)
    lanes = _lanes(tree, heads, branches)
    rows = [
        _row(
            tree=tree,
            place=place,
            node=ids.get(place, ""),
            lane=lanes.get(place, 0),
            folded=folded.get(place, 0),
            low=low,
            high=high,
        )
        for place in page
    ]
    following = after + limit if after + limit < len(heads) else None
    return {
        "run": fold.run_number,
        "event": fold.number,
        "total": len(heads),
        "next": following,
        "lo": low,
        "hi": high,
        "rows": rows,
    }


def _strip_range(gains: list[float]) -> tuple[float, float]:
    if not gains:
        return -10.0, 10.0
    margin = len(gains) // 50
    low, high = gains[margin], gains[-1 - margin]
    return min(low, -0.1), max(high, 0.1)


def _lanes(tree: KeptTree, heads: list[int], branches: dict[int, list[int]]) -> dict[int, int]:
    """Assign lanes: 0 is the best path; each side branch has the first lane that is free while it lasts."""
    lanes: dict[int, int] = {}
    free_from: list[int] = []
    of_branch: dict[int, int] = {}
    for head in sorted(branches):
        if head in tree.best_path:
            continue
        last = max(branches[head])
        lane = next((number for number, end in enumerate(free_from) if end < head), len(free_from))
        free_from[lane : lane + 1] = [last]
        of_branch[head] = min(lane + 1, _MOST_LANES)
    for place in heads:
        top = tree.branch_of(place)
        lanes[place] = 0 if place in tree.best_path else of_branch.get(top, 1)
    return lanes


def _row(tree: KeptTree, place: int, node: str, lane: int, folded: int, low: float, high: float) -> dict[str, Any]:
    columns, history = tree.columns, tree.history
    strip: Counter[tuple[int, int]] = Counter()
    without: Counter[int] = Counter()
    is_open = 0
    for each in (*tree.tries[place], *tree.kept_children[place]):
        mark, gain = columns.marks[each], tree.gain_percent(each, place)
        if mark == OPEN:
            is_open += 1
        elif mark in WITHOUT_SCORE:
            without[mark] += 1
        elif gain is not None:
            strip[min(max(int((gain - low) / (high - low) * BINS), 0), BINS - 1), mark] += 1
    found = history[history.node_of_handle(columns.handles[place])]
    above = over_parent(history, found)
    return {
        "id": node,
        "handle": columns.handles[place],
        "parent": node.rpartition(".")[0] or None,
        "parents": [{"id": each, "handle": history.handle(each)} for each in found.merged],
        "lane": lane,
        "fold": folded,
        "summary": change_name(history, found),
        "operator": columns.operator(place),
        "pool": found.pool.value,
        "at": columns.times[place],
        "score": columns.score(place),
        "gain_percent": above.change.percent if above else None,
        "best": place == tree.best,
        "on_best_path": place in tree.best_path,
        "mark": MARKS[columns.marks[place]],
        "tries": len(tree.tries[place]) + len(tree.kept_children[place]),
        "no_score": {MARKS[mark]: without[mark] for mark in WITHOUT_SCORE},
        "open": is_open,
        "strip": [[position, MARKS[mark], count] for (position, mark), count in sorted(strip.items())],
    }


def map_nodes(history: History, fold: RunFold, top: str) -> dict[str, Any]:
    """Return kept, held and open nodes below one, breadth first; other children as counts by mark."""
    tree, columns = KeptTree(history, fold), fold.columns
    start = columns.place_of(history, NodeId(top)) if top else 0
    if start is None or not len(columns):
        raise Misuse(f"there is no node {top} in run {fold.run_number}")
    found: list[int] = []
    queue, hidden = [start], Counter[int]()
    while queue and len(found) < _MOST_NODES:
        place = queue.pop(0)
        found.append(place)
        queue += tree.kept_children[place]
        queue += [each for each in tree.tries[place] if columns.marks[each] in (HELD, OPEN)]
    for place in queue:
        hidden[columns.parents[place]] += 1
    ids = columns.ids(history, found)
    return {
        "run": fold.run_number,
        "event": fold.number,
        "total": len(tree.kept),
        "nodes": [_map_node(tree, place, ids.get(place, ""), hidden[place]) for place in found],
    }


def _map_node(tree: KeptTree, place: int, node: str, hidden: int) -> dict[str, Any]:
    columns = tree.columns
    others = Counter(
        MARKS[columns.marks[each]] for each in tree.tries[place] if columns.marks[each] not in (HELD, OPEN)
    )
    found = tree.history[tree.history.node_of_handle(columns.handles[place])]
    return {
        "id": node,
        "handle": columns.handles[place],
        "parent": node.rpartition(".")[0] or None,
        "merged": list(found.merged),
        "mark": MARKS[columns.marks[place]],
        "pool": found.pool.value,
        "score": columns.score(place),
        "summary": change_name(tree.history, found),
        "on_best_path": place in tree.best_path,
        "kept_children": len(tree.kept_children[place]),
        "others": dict(others),
        "hidden": hidden,
    }
