"""Whether combination earns its place: `examples/ensemble` on new data, with and without its second stage.

    .venv/bin/python benchmarks/combination.py [DATASETS]

Both arms have the same number of attempts: 48 random classifiers, or 24 of them and 24 random blends of the pool
that the shipped rule chooses. Each arm submits what is best out of fold; the table has its log loss on held-out
rows. The example's own functions are called; only the sandbox and git are left out.
"""

from __future__ import annotations

import random
import sys
import tomllib
from pathlib import Path

from page_tables import difference_text, write_table

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.show.chosen_nodes import choose_pool

EXAMPLE = Path(__file__).parents[1] / "examples" / "ensemble"
FIRST_DATASET = 100
ATTEMPTS, MEMBERS = 24, 4
DEFAULTS = {"neighbours": 9, "penalty": 0.01, "parts": 2}
sys.path.insert(0, str(EXAMPLE))


def search_space() -> Space:
    tables = tomllib.loads((EXAMPLE / "loopty.toml").read_text())["parameters"]
    return Space(
        {
            name: Parameter(
                **{**table, "type": ParameterKind(table["type"]), "choices": tuple(table.get("choices", ()))}
            )
            for name, table in tables.items()
        }
    )


def make_history(points: list[dict], losses: list[float]) -> History:
    """A search over these points, in which each published its own predictions."""
    history, name, root = MemoryLedger().history(), ObjectName("c0" * 20), NodeId("1")
    events: list = [RunStarted(1, "c", Objective(), 0, "")]
    for number, (point, loss) in enumerate(zip(points, losses, strict=True)):
        node = root.child(number) if number else root
        outcome = Outcome(Ending.FINISHED, {"score": -loss}, artifacts={"predictions.json": f"{number}"})
        events += [
            NodeAdded(node, Pool.ATTEMPT, "random", "", name, name, point),
            TrialStarted(node, 1, Pool.ATTEMPT, "me"),
            TrialEnded(node, 1, outcome),
            NodeJudged(node, Verdict.DISCARDED if number else Verdict.KEPT, "", root),
        ]
    for number, event in enumerate(events, start=1):
        history.apply(Recorded(number, float(number), event))
    return history


def run_one(seed: int) -> dict[str, float]:
    """The held-out log loss of each arm on one dataset."""
    from blend import blend
    from classifiers import log_loss, out_of_fold
    from make_data import make_data

    rows, labels, more_rows, more_labels = make_data(seed)
    space, rng = search_space(), random.Random(f"combination {seed}")
    points = [space.sample(rng) for _ in range(2 * ATTEMPTS)]
    found = [out_of_fold({**DEFAULTS, **point}, rows, labels, more_rows) for point in points]
    losses = [log_loss(mine, labels) for mine, _ in found]
    best = min(range(2 * ATTEMPTS), key=losses.__getitem__)
    history = make_history(points[:ATTEMPTS], losses[:ATTEMPTS])
    pool = [history[member.node].order - 1 for member in choose_pool(history, 1, MEMBERS)]
    weights = [[1.0] * MEMBERS, *([rng.random() for _ in range(MEMBERS)] for _ in range(ATTEMPTS - 1))]
    blended = min(weights, key=lambda one: log_loss(blend([found[i][0] for i in pool], one), labels))
    first = min(range(ATTEMPTS), key=losses.__getitem__)
    return {
        "search of 48": log_loss(found[best][1], more_labels),
        "search of 24": log_loss(found[first][1], more_labels),
        "search of 24, plain mean of the pool": log_loss(
            blend([found[i][1] for i in pool], weights[0]), more_labels
        ),
        "search of 24, then 24 blends": log_loss(blend([found[i][1] for i in pool], blended), more_labels),
    }


def main(count: int) -> None:
    results = [run_one(seed) for seed in range(FIRST_DATASET, FIRST_DATASET + count)]
    control = [one["search of 48"] for one in results]
    lines = [
        f"`examples/ensemble` on {count} new datasets, log loss on held-out rows (lower is better), "
        "differences to the search alone with as many attempts, paired by dataset, with 95 % intervals:",
        "",
        "| | log loss | over the search of 48 |",
        "|---|---|---|",
    ]
    for name in results[0]:
        mine = [one[name] for one in results]
        over = "" if name == "search of 48" else difference_text(mine, control)
        lines.append(f"| {name} | {sum(mine) / count:.3f} | {over} |")
    write_table("combination", "\n".join(lines))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
