"""What a worker on a rented machine runs."""

import pytest

from loopty.domain.errors import Misuse
from loopty.features.fleet.cluster_spec import ClusterSpec
from loopty.features.fleet.rented_workers import requirement, worker_line
from loopty.kit import installation


def test_a_worker_on_a_rented_machine_ends_without_a_driver_and_when_its_time_is_over():
    spec = ClusterSpec.parse("sky:aws?workers=2&minutes=30&gpus=H100:1&spot=yes")
    assert spec.workers == 2
    assert worker_line(spec) == "timeout 1800 loopty worker --trust --patience 120"


def test_what_is_installed_there_can_be_said():
    assert requirement(ClusterSpec.parse("modal:?install=git%2Bhttps://example.org/loopty")).startswith(
        "git+https"
    )


@pytest.mark.parametrize(
    ("origin", "installed"),
    [
        (None, "loopty=="),
        ({"url": "https://example.org/loopty.whl", "archive_info": {}}, "loopty @ https://example.org/loopty.whl"),
        (
            {"url": "https://example.org/loopty", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "loopty @ git+https://example.org/loopty@abc",
        ),
    ],
)
def test_a_rented_machine_gets_loopty_from_where_this_one_came(monkeypatch, origin, installed):
    monkeypatch.setattr(installation, "_origin", lambda: origin)
    assert requirement(ClusterSpec.parse("sky:")).startswith(installed)


def test_of_a_loopty_from_a_folder_the_user_says_what_is_installed(monkeypatch):
    monkeypatch.setattr(installation, "_origin", lambda: {"url": "file:///home/me/loopty", "dir_info": {}})
    with pytest.raises(Misuse, match="install="):
        requirement(ClusterSpec.parse("modal:"))


def test_an_option_of_another_scheduler_is_refused_with_those_that_there_are():
    with pytest.raises(Misuse, match=r"spot=…"):
        ClusterSpec.parse("sky:aws?folder=/x")
