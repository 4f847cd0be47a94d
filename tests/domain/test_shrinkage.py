"""A stated gain is without the luck of having been selected."""

import random
import statistics

import pytest

from loopty.domain.evidence import evidence, shrunk_gain


def test_small_gains_shrink_and_large_ones_do_not():
    assert shrunk_gain(2.0, 1.0) < 1.0
    assert shrunk_gain(6.0, 1.0) == pytest.approx(6.0, abs=0.01)
    assert shrunk_gain(3.0, 0.0) == 3.0
    assert shrunk_gain(-1.0, 1.0) == 0.0


def test_a_larger_gain_is_never_stated_as_smaller():
    stated = [shrunk_gain(gain / 20, 1.0) for gain in range(1, 200)]
    assert stated == sorted(stated)


@pytest.mark.parametrize(("true", "raw"), [(0.5, 1.1), (1.0, 1.3), (2.0, 2.1), (4.0, 4.0)])
def test_what_is_kept_is_stated_near_its_true_gain(true, raw):
    rng, kept = random.Random(3), []
    while len(kept) < 300:
        gains = []
        if true + rng.gauss(0, 1) <= rng.gauss(0, 0.5):
            continue
        while True:
            gains.append(true + rng.gauss(0, 1) - rng.gauss(0, 1))
            found = evidence(gains, 1.0, 0.05, 16)
            if found.better:
                kept.append(found)
            if found.better or found.futile or found.exhausted:
                break
    assert statistics.fmean(one.effect for one in kept) == pytest.approx(raw, abs=0.15)
    assert statistics.fmean(one.stated for one in kept) == pytest.approx(true, abs=0.25)
