"""What a worker on a rented machine runs."""

import pytest

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.executors.rented_workers import requirement, worker_line


def test_a_worker_on_a_rented_machine_ends_without_a_driver_and_when_its_time_is_over():
    spec = ClusterSpec.parse("sky:aws?workers=2&minutes=30&gpus=H100:1&spot=yes")
    assert spec.workers == 2
    assert worker_line(spec) == "timeout 1800 loopty worker --trust --patience 120"


def test_what_is_installed_there_can_be_said():
    assert requirement(ClusterSpec.parse("modal:?install=git%2Bhttps://example.org/loopty")).startswith(
        "git+https"
    )
    assert requirement(ClusterSpec.parse("sky:")).startswith("loopty==")


def test_an_option_of_another_scheduler_is_refused_with_those_that_there_are():
    with pytest.raises(Misuse, match=r"spot=…"):
        ClusterSpec.parse("sky:aws?folder=/x")
