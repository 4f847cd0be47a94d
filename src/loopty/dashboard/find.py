"""Search over all nodes of a run: words in ids, short names, changes and operators, and verdicts as filters."""

from __future__ import annotations

from typing import Any

from loopty.dashboard.marks import MARKS
from loopty.dashboard.run_fold import RunFold
from loopty.domain.errors import Misuse
from loopty.record.history import History

_MOST_HITS = 100
_LONGEST_QUERY = 200


def find_nodes(history: History, fold: RunFold, query: str, limit: int) -> dict[str, Any]:
    """The newest nodes that match every word of the query."""
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
            for place in range(columns.detailed - 1, -1, -1)
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
                "summary": columns.summaries[place],
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
    """The node whose id or short name is the only word."""
    if len(words) != 1:
        return []
    word, columns = words[0], fold.columns
    is_path = word.isdecimal() and len(word) < 12 and int(word) in history.runs
    if word.lstrip("#@").isdecimal() and len(word) < 12 and not is_path:
        place = columns.place_of_handle(int(word.lstrip("#@")))
        return [] if place is None else [place]
    found = columns.place_of(word)
    if found is None:
        return []
    return [found] if history.runs.get(fold.run_number) else []
