"""The objective: metrics in order or as a weighted sum; and what printed names and numbers say about them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from loopty.domain.evidence import median
from loopty.kit.records import Record
from loopty.kit.tables import Table, option

SCORE = "score"
WEIGHTED_SUM = "weighted sum"
_MAX_NAMES = 8
_LARGEST = 1e100
"""Beyond this value, sums and differences overflow to infinity."""


class Direction(StrEnum):
    MAX = "max"
    MIN = "min"

    @classmethod
    def _missing_(cls, value: object) -> Direction | None:
        """Read the words in full, too."""
        return {"maximize": cls.MAX, "maximise": cls.MAX, "minimize": cls.MIN, "minimise": cls.MIN}.get(str(value))

    @property
    def sign(self) -> int:
        return 1 if self is Direction.MAX else -1

    def worse(self, one: float, other: float) -> float:
        """Return the worse of two values."""
        return min(one, other) if self is Direction.MAX else max(one, other)


class Metric(Table):
    """One metric of the objective."""

    name: str = option("The metric's name: `score`, a CSV column, or `tasks.ID`.")
    direction: Direction = option("Whether a higher (`max`) or a lower (`min`) value is better.", Direction.MAX)
    tolerance: float = option(
        "Smaller differences count as equal, and the next metric decides. A gain must exceed it.",
        0.0,
        minimum=0,
    )
    weight: float | None = option(
        "With weights on all metrics, their weighted sum is compared.",
        None,
        above=0,
    )


class Statistic(StrEnum):
    """What counts of many runs of the same code."""

    MEDIAN = "median"
    MEAN = "mean"
    P95 = "p95"

    def of(self, values: Sequence[float], direction: Direction) -> float:
        """Compute it; `p95` is the value that one run of twenty is worse than."""
        if self is Statistic.MEDIAN:
            return median(values)
        if self is Statistic.MEAN:
            return math.fsum(values) / len(values)
        best_first = sorted(values, reverse=direction is Direction.MAX)
        return best_first[math.ceil(0.95 * len(values)) - 1]


Metrics = Mapping[str, float]
Directions = Mapping[str, Direction]


class Objective(Table):
    """How two results compare. If the task lists no metrics, those that the benchmark reports count."""

    direction: Direction = option(
        "Whether a higher or a lower `score` is better, if no metrics are listed.", Direction.MAX
    )
    metrics: tuple[Metric, ...] = option(
        "Metrics in order of priority. Default: `score`, or else the columns of the CSV.", ()
    )
    statistic: Statistic = option(
        "What of many runs must be better: `median`, `mean` or `p95`, which one run of twenty is worse than. With"
        " the last two, what wins the usual pairs gets 59 of them, and must be better in the statistic as well.",
        Statistic.MEDIAN,
    )

    def counting_metrics(self, metrics: Metrics, directions: Directions) -> tuple[Metric, ...]:
        """Return the metrics that count, given what a benchmark reported."""
        if self.metrics:
            return self.metrics
        if SCORE in metrics:
            return (Metric(SCORE, directions.get(SCORE, self.direction)),)
        return tuple(Metric(name, directions.get(name, Direction.MAX)) for name in metrics)


def statistic_gain(
    statistic: Statistic, direction: Direction
) -> Callable[[Sequence[float], Sequence[float]], float]:
    """Return the function that tells by how much the first runs are better in the statistic than the second."""

    def gain(mine: Sequence[float], theirs: Sequence[float]) -> float:
        return direction.sign * (statistic.of(mine, direction) - statistic.of(theirs, direction))

    return gain


def is_weighted(metrics: Sequence[Metric]) -> bool:
    """Say whether the weighted sum of the metrics is compared, instead of one after the other."""
    return bool(metrics) and all(metric.weight is not None for metric in metrics)


def score_metric(metrics: Sequence[Metric]) -> Metric:
    """Return the metric that lists show and charts draw: the most important, or the weighted sum."""
    return Metric(WEIGHTED_SUM) if is_weighted(metrics) else metrics[0]


def with_weighted_sum(values: Metrics, metrics: Sequence[Metric]) -> Metrics:
    """Add the weighted sum to the values, if that is compared; higher is better."""
    if not is_weighted(metrics) or any(metric.name not in values for metric in metrics):
        return values
    total = sum((metric.weight or 0.0) * metric.direction.sign * values[metric.name] for metric in metrics)
    return {**values, WEIGHTED_SUM: total}


def metrics_fault(metrics: Metrics, wanted: tuple[Metric, ...]) -> str | None:
    """Tell why these metrics cannot be compared, or None."""
    if not metrics:
        return "the benchmark reported no metric"
    absent = [metric.name for metric in wanted if metric.name not in metrics]
    if absent:
        reported = ", ".join(list(metrics)[:_MAX_NAMES]) + (", …" if len(metrics) > _MAX_NAMES else "")
        return f"the benchmark did not report {', '.join(absent)} (it reported {reported})"
    for metric in wanted:
        if abs(metrics[metric.name]) > _LARGEST:
            return f"{metric.name} {metrics[metric.name]:g} is too large to compare"
    return None


class Gain(Record):
    """How much better one result is than another; negative is worse, zero is equal."""

    amount: float
    metric: Metric | None
    """The metric that decided; None for a weighted sum."""


def gain(mine: Metrics, theirs: Metrics, metrics: tuple[Metric, ...]) -> Gain:
    """Tell how much better `mine` is than `theirs`."""
    if is_weighted(metrics):
        return Gain(sum((metric.weight or 0.0) * _delta(mine, theirs, metric) for metric in metrics), None)
    for metric in metrics:
        delta = _delta(mine, theirs, metric)
        if abs(delta) > metric.tolerance:
            return Gain(delta, metric)
    return Gain(0.0, metrics[0])


def gains_beyond_tolerance(
    pairs: Sequence[tuple[Metrics, Metrics]], metrics: tuple[Metric, ...], place: int
) -> list[float]:
    """List what each pair says of "better in the metric at `place` by more than its tolerance".

    A pair that is worse in a more important metric, beyond its tolerance, counts against; one that is better in it
    says nothing here. A gain of exactly the tolerance is 0.
    """
    metric, amounts = metrics[place], []
    for mine, theirs in pairs:
        before = [(_delta(mine, theirs, one), one.tolerance) for one in metrics[:place]]
        worse = next((delta for delta, tolerance in before if delta < -tolerance), 0.0)
        decided = any(delta > tolerance for delta, tolerance in before)
        own = 0.0 if decided else _delta(mine, theirs, metric) - metric.tolerance
        amounts.append(worse or own)
    return amounts


def _delta(mine: Metrics, theirs: Metrics, metric: Metric) -> float:
    return metric.direction.sign * (mine[metric.name] - theirs[metric.name])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEST_NAMES = ("combined_score", "score", "fitness", "objective", "reward")
_QUALITY = _words(
    "accuracies accuracy acc ap auc auroc bleu coverage dice efficiency elo f1 fitness gain improvement hit iou "
    "map ndcg precision psnr quality r2 recall return reward roc rouge score silhouette speedup ssim success "
    "utility win wins"
)
_RATES = _words(
    "bandwidth flops fps gflops hits hz iops ips mips mflops ops opsec qps rps speed tflops throughput tps"
)
_LOSSES = _words(
    "bpb bpc cer cost crossentropy deviance entropy error kl logloss loss losses mae mape mse nll penalty "
    "perplexity ppl regret rmse violation violations wer"
)
_SPENT = _words(
    "allocations allocs byte bytes cpu cycles delay duration elapsed errors failed failures gb gib instructions "
    "kb kib latency lost mb mem memory mib misses miss ms ns nanoseconds nanos microseconds micros millis "
    "milliseconds overhead p50 p90 p95 p99 peak rss runtime s sec secs seconds size time times usec us vram "
    "wall walltime"
)
_COUNTED_FAULTS = frozenset(("error", "errors", "failures", "misses"))
_TIME_UNITS = _words("s sec secs second seconds ms us ns min minute minutes h hr hour hours")
_SECONDS_OF = {
    **dict.fromkeys(_words("ns nanoseconds nanos"), 1e-9),
    **dict.fromkeys(_words("us usec microseconds micros"), 1e-6),
    **dict.fromkeys(_words("ms millis milliseconds"), 1e-3),
    **dict.fromkeys(_words("s sec secs seconds"), 1.0),
    **dict.fromkeys(_words("cpu delay duration elapsed latency runtime time wall walltime"), 1.0),
}
"""By the word of a name; those with a unit come first."""
_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|/")
_NO_SCORE = len(_BEST_NAMES) + 3


def best_score_name(names: Iterable[str]) -> str:
    """Choose the number that is most likely the score: a name that says so, then a quality, then the first."""
    # Of equals, min takes the first. What a model reaches on its training data says least about it.
    return min(names, key=lambda name: (not says_score(name), _is_of_training(name), _rank(name)))


def _is_of_training(name: str) -> bool:
    return bool({"train", "training"} & set(_words_of(name)))


def says_score(name: str) -> bool:
    """Say whether the name is that of a result, and not of what was spent or counted on the way."""
    return _rank(name) < _NO_SCORE


def direction_of(name: str) -> Direction | None:
    """Tell which values of a number with this name are better; None if the name does not say."""
    words = _words_of(name)
    if "per" not in words:
        return _direction_of_words(words)
    at = words.index("per")
    counted = words[:at]
    if _TIME_UNITS.intersection(words[at + 1 : at + 2]):  # a rate: of ms per second, no one speaks
        return Direction.MIN if _COUNTED_FAULTS & set(counted) else Direction.MAX
    return _direction_of_words(counted)


_DURATIONS = _words(
    "cpu delay duration elapsed latency ms ns nanoseconds nanos microseconds micros millis milliseconds overhead "
    "p50 p90 p95 p99 runtime s sec secs seconds time times us wall walltime"
)


def says_speed(name: str) -> bool:
    """Say whether the name is that of a time or of a rate."""
    words = set(_words_of(name))
    return "per" in words or bool(words & (_DURATIONS | _RATES))


def seconds_of_unit(name: str) -> float | None:
    """Return how many seconds one unit of this number is, where the name says that it is a time."""
    words = _words_of(name)
    counted = words[: words.index("per")] if "per" in words else words
    return next((seconds for word, seconds in _SECONDS_OF.items() if word in counted), None)


def _rank(name: str) -> int:
    words = set(_words_of(name))
    if (last := name.rpartition(".")[2].lower()) in _BEST_NAMES:
        return _BEST_NAMES.index(last)
    if "score" in words:
        return len(_BEST_NAMES)
    if words & _QUALITY:
        return len(_BEST_NAMES) + 1
    is_rate = "per" in words and direction_of(name) is Direction.MAX
    return len(_BEST_NAMES) + 2 if words & (_RATES | _LOSSES) or is_rate else _NO_SCORE


def _words_of(name: str) -> list[str]:
    """Split a name into words in small letters; `ops/s` and `opsPerSec` have three."""
    plain = name.replace("²", "2").replace("^2", "2")
    return ["per" if word == "/" else word.lower() for word in _WORD.findall(plain.rpartition(".")[2])]


def _direction_of_words(words: list[str]) -> Direction | None:
    """Take the direction of the last word that has one: `val_loss` is a loss, and `error_score` a score."""
    for word in reversed(words):
        if word in _QUALITY or word in _RATES:
            return Direction.MAX
        if word in _LOSSES or word in _SPENT:
            return Direction.MIN
    return None


NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NAMED_NUMBER = re.compile(rf"^\W*(?:METRIC )?([A-Za-z][\w ./%()-]{{0,60}}?)\s*[:=]\s*({NUMBER})(?![\w.])")
_LONGEST_LINE = 1_000
_MOST_NAMES = 200


_PAIR = re.compile(rf"(?<![\w.])([A-Za-z][\w@²^-]*(?: (?!-)[A-Za-z][\w@²^-]*)?)\s*[:=]\s*({NUMBER})(?![\w.])")
_SPACED_PAIR = re.compile(
    rf"(?<![\w.])((?:[A-Za-z]+[ _-])?(?:{'|'.join(sorted(_QUALITY | _LOSSES, key=len, reverse=True))}))"
    rf"[ \t]+({NUMBER})(?![\w.])",
    re.IGNORECASE,
)
"""Without a sign between name and number, only the name of a metric is one: `step 3` is none."""


def named_numbers(lines: Iterable[str]) -> dict[str, float]:
    """Find the last number of each name, in the order in which the names came first."""
    named: dict[str, float] = {}
    for line in lines:
        for name, number in _named_in_line(line[:_LONGEST_LINE]):
            if name in named or len(named) < _MOST_NAMES:
                named[name] = float(number)
    return named


def _named_in_line(line: str) -> list[tuple[str, str]]:
    """Find the names and numbers of a line: one, or several metrics, as training prints them for each epoch."""
    pairs = [*_PAIR.findall(line), *_SPACED_PAIR.findall(line)]
    metrics = [(name, number) for name, number in pairs if says_score(name)]
    if len(metrics) > 1 or (metrics and _STEP.match(line)):
        return metrics
    first = _NAMED_NUMBER.match(line)
    return [(first[1], first[2])] if first else metrics


_STEP = re.compile(r"\W*(?:epoch|step|iter(?:ation)?|fold|round)\b", re.IGNORECASE)


_NAMED_NOT_FINITE = re.compile(
    r"^\W*?(?:METRIC )?(?:(?P<name>[A-Za-z][\w ./%()-]{0,60}?)[\"']?\s*[:=]\s*)?"
    r"(?P<value>[-+]?(?:nan|inf(?:inity)?))\W*$",
    re.IGNORECASE,
)


def printed_not_finite(line: str) -> tuple[str, float] | None:
    """Return the name, if any, and the number of a line such as `score: nan`; None for any other line."""
    found = _NAMED_NOT_FINITE.match(line[:1_000])
    return (found["name"] or "", float(found["value"])) if found else None


def not_finite_text(value: float) -> str:
    """Return what such a number is called."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
