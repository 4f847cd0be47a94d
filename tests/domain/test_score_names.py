"""The name of a number says whether it is the score, and which of its values are better."""

import pytest

from loopty.domain.objective import best_score_name, direction_of, says_score


@pytest.mark.parametrize(
    "name",
    [
        "score",
        "combined_score",
        "metrics.accuracy",
        "F1",
        "R2",
        "throughput",
        "ops_per_sec",
        "opsPerSec",
        "ops/s",
        "MB/s",
        "tok/s",
        "hit_rate",
        "win_rate",
        "speed",
        "error_score",
        "requests per second",
        "accuracy (%)",
    ],
)
def test_of_scores_qualities_and_rates_higher_is_better(name):
    assert direction_of(name) == "max"


@pytest.mark.parametrize(
    "name",
    [
        "loss",
        "val_loss",
        "val_bpb",
        "error",
        "error_rate",
        "RMSE",
        "seconds",
        "eval_time",
        "time_ms",
        "latency",
        "p95",
        "bytes",
        "peak_vram_mb",
        "ns/op",
        "ms_per_step",
        "bytes_per_op",
        "errors_per_second",
        "cpu_seconds",
        "elapsed time",
        "time (ms)",
        "validation RMSE",
    ],
)
def test_of_losses_times_and_sizes_lower_is_better(name):
    assert direction_of(name) == "min"


@pytest.mark.parametrize("name", ["sum_radii", "num_steps", "n", "objective", ""])
def test_a_name_that_does_not_say_it_has_no_direction(name):
    assert direction_of(name) is None


@pytest.mark.parametrize(
    ("names", "best"),
    [
        (["sum_radii", "eval_time", "combined_score"], "combined_score"),
        (["seconds", "accuracy"], "accuracy"),
        (["n", "opsPerSec", "error"], "opsPerSec"),
        (["training_seconds", "val_bpb", "num_steps"], "val_bpb"),
        (["seconds", "raw_score", "score"], "score"),
        (["sum_radii", "eval_time"], "sum_radii"),
    ],
)
def test_the_score_is_the_number_whose_name_says_so_and_else_the_first(names, best):
    assert best_score_name(names) == best


def test_what_was_spent_on_the_way_is_no_score():
    assert says_score("val_bpb")
    assert not says_score("eval_time")
    assert not says_score("num_steps")
