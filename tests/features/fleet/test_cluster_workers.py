"""What entries that name a cluster ask for."""

import pytest

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec
from loopty.features.fleet.host_workers import ClusterTerms, cluster_runs


def test_an_entry_asks_a_scheduler_for_workers():
    spec = ClusterSpec.parse("slurm:gpu?workers=3&gpus=2")
    assert (spec.kind, spec.place, spec.workers) == ("slurm", "gpu", 3)
    assert (spec.number("gpus", 0), spec.number("cpus", 1)) == (2.0, 1.0)
    assert len(cluster_runs("slurm:gpu?workers=4", ClusterTerms(), print)) == 4


@pytest.mark.parametrize("host", ["slurm:gpu?workers=0", "slurm:gpu?workers=x", "slurm:a?gpu=1"])
def test_a_wrong_option_is_named_with_the_right_ones(host):
    with pytest.raises(Misuse, match="workers=NUMBER"):
        ClusterSpec.parse(host)


def test_a_number_has_to_be_one():
    with pytest.raises(Misuse, match="cpus is 'many'"):
        ClusterSpec.parse("slurm:?cpus=many").number("cpus", 1)
