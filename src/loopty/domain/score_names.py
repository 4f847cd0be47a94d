"""What the name of a number says: whether it is the score, and whether higher or lower is better."""

from __future__ import annotations

import re
from collections.abc import Iterable

from loopty.domain.objective import Direction


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BEST_NAMES = ("combined_score", "score", "fitness", "objective", "reward")
_QUALITY = _words(
    "accuracy acc auc auroc bleu coverage dice efficiency elo f1 fitness gain improvement hit iou map "
    "ndcg precision psnr quality r2 recall return reward rouge score speedup ssim success utility win wins"
)
_RATES = _words(
    "bandwidth flops fps gflops hits hz iops ips mips mflops ops opsec qps rps speed tflops throughput tps"
)
_LOSSES = _words(
    "bpb bpc cer cost crossentropy deviance entropy error kl loss mae mape mse nll penalty perplexity ppl regret "
    "rmse violation violations wer"
)
_SPENT = _words(
    "allocations allocs byte bytes cpu cycles delay duration elapsed errors failed failures gb gib instructions "
    "kb kib latency lost mb mem memory mib misses miss ms ns nanoseconds nanos microseconds micros millis "
    "milliseconds overhead p50 p90 p95 p99 peak rss runtime s sec secs seconds size time times usec us vram "
    "wall walltime"
)
_COUNTED_FAULTS = frozenset(("error", "errors", "failures", "misses"))
_TIME_UNITS = _words("s sec secs second seconds ms us ns min minute minutes h hr hour hours")
_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|/")
_NO_SCORE = len(_BEST_NAMES) + 3


def best_score_name(names: Iterable[str]) -> str:
    """Choose the number that is most likely the score: a name that says so, then a quality, then the first."""
    return min(names, key=_rank)  # of equals, min takes the first


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
    return ["per" if word == "/" else word.lower() for word in _WORD.findall(name.rpartition(".")[2])]


def _direction_of_words(words: list[str]) -> Direction | None:
    """Take the direction of the last word that has one: `val_loss` is a loss, and `error_score` a score."""
    for word in reversed(words):
        if word in _QUALITY or word in _RATES:
            return Direction.MAX
        if word in _LOSSES or word in _SPENT:
            return Direction.MIN
    return None
