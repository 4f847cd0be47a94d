"""Change a good node that behaves unlike the other good ones."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.engine.protocols import Ask, Selection
from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option
from loopty.record.cohorts import Cohorts
from loopty.selectors.judged_nodes import NodeValue, population


@dataclass(frozen=True, slots=True)
class NoveltySelector(Record):
    """The node of the best ones whose nearest neighbours are farthest, in the columns that describe behaviour."""

    columns: tuple[str, ...] = option("The columns that describe a behaviour. Default: all that are reported.", ())
    neighbours: int = option("How many nearest neighbours count.", 3, minimum=1)
    share: float = option(
        "The share of proposals that look for novelty; the others change the best node.", 0.5, minimum=0
    )

    def select(self, ask: Ask) -> Selection:
        if ask.rng.random() >= self.share:
            return Selection(ask.best, "the best node so far")
        ranked = population(ask)
        points = _points(ask, ranked, self.columns)
        if len(ranked) < 2 or not points[0]:
            return Selection(ask.best, "the best node: no column tells nodes apart yet")

        def distance(place: int) -> float:
            others = sorted(_distance(points[place], point) for at, point in enumerate(points) if at != place)
            near = others[: self.neighbours]
            return sum(near) / len(near)

        far = max(range(len(ranked)), key=lambda place: (distance(place), -place))
        return Selection(
            ask.history[ranked[far].id], f"unlike the other good nodes: {distance(far):.2f} from its neighbours"
        )


def _points(ask: Ask, ranked: Sequence[NodeValue], columns: Sequence[str]) -> list[list[float]]:
    """The nodes' columns, each as a share of its range."""
    fingerprint = Cohorts.of(ask.history.runs[ask.run]).fingerprint
    results = [ask.history[one.id].result(fingerprint) for one in ranked]
    metrics = [result.outcome.metrics if result else {} for result in results]
    common = [name for name in metrics[0] if all(name in row for row in metrics)]
    ranges = {}
    for name in columns or common:
        values = [row[name] for row in metrics if name in row]
        if len(values) == len(metrics) and max(values) > min(values):
            ranges[name] = min(values), max(values) - min(values)
    return [[(row[name] - low) / span for name, (low, span) in ranges.items()] for row in metrics]


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5)
