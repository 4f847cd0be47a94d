"""The held-out split: its digest and its leaks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from loopty.domain.benchmark import Benchmark
from loopty.domain.errors import Misuse
from loopty.domain.task import Audit
from loopty.kit import paths
from loopty.kit.records import replace
from loopty.workspaces.held_out import HeldOutSplit

from .conftest import User

SECRET = "the twelfth of march, eleven degrees\n"
HEADER = "day,temperature,wind,rainfall\n"
AUDIT = Audit(files=("heldout",))
BENCHMARK = Benchmark("python3 evaluate.py", 30.0, files=("evaluate.py", "data"))
BASE = {
    "evaluate.py": "print()\n",
    "data/train.csv": f"{HEADER}1,2,3,4\n",
    "heldout/test.csv": f"{HEADER}{SECRET}",
}


def split(user: User, commit: str, audit: Audit = AUDIT, benchmark: Benchmark = BENCHMARK) -> HeldOutSplit:
    return HeldOutSplit(
        user.repository, audit, benchmark, commit, lambda path: not paths.matches(path, [*audit.files, "hidden"])
    )


def leaks(user: User, change: dict[str, str], audit: Audit = AUDIT, **benchmark: Sequence[str]) -> list[str]:
    """The leaks of a node that makes this change."""
    base = user.commits(BASE)
    node = user.commits(change)
    return split(user, base, audit, replace(BENCHMARK, **benchmark)).leaks(node)


def test_a_node_without_lines_of_the_split_has_no_leak(user: User):
    assert leaks(user, {"model.py": "a line that is long enough to be telling\n"}) == []


def test_a_copy_that_the_search_sees_is_a_leak(user: User):
    (leak,) = leaks(user, {"data/copy.bin": BASE["heldout/test.csv"], "hidden/copy": BASE["heldout/test.csv"]})[:1]
    assert leak == "data/copy.bin, which the search sees, is identical to the held-out heldout/test.csv"


def test_equal_empty_files_are_no_leak(user: User):
    user.commits({"heldout/__init__.py": "", "data/__init__.py": ""})
    assert leaks(user, {"model.py": ""}) == []


@pytest.mark.parametrize("quote", [f"KNOWN = '''\n   {SECRET}'''\n", f"KNOWN = [{SECRET.strip()!r}, 'x']\n"])
def test_a_line_of_the_split_that_a_node_adds_is_a_leak(user: User, quote: str):
    found = leaks(user, {"model.py": quote, "other.py": "pass\n"})
    assert found == ["model.py quotes 1 line of the held-out heldout/test.csv"]


def test_a_line_that_the_search_saw_before_is_no_leak(user: User):
    assert leaks(user, {"model.py": f"COLUMNS = '''\n{HEADER}'''\n"}) == []


def test_a_line_that_the_file_had_at_the_baseline_is_no_leak(user: User):
    user.commits({"hidden/model.py": SECRET})
    assert leaks(user, {"hidden/model.py": f"{SECRET}\n\n"}) == []


@pytest.mark.parametrize("line", ["short enough\n", "----------------------------------------\n"])
def test_a_short_or_monotonous_line_is_no_leak(user: User, line: str):
    user.commits({"heldout/notes.txt": line})
    assert leaks(user, {"model.py": f"{line}pass\n"}) == []


def test_lines_of_data_outside_the_repository_are_found_as_well(user: User, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test.csv").write_text("something that no file of the baseline holds\n")
    audit = Audit(data=(str(outside),))
    (leak,) = leaks(user, {"model.py": "something that no file of the baseline holds\n"}, audit)
    assert leak == f"model.py quotes 1 line of the held-out {outside.resolve()}/test.csv"


@pytest.mark.parametrize("key", ["mounts", "data"])
def test_data_that_the_search_sees_is_a_leak(user: User, tmp_path: Path, key: str):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "test.csv").write_text(SECRET)
    (leak,) = leaks(user, {}, Audit(data=(f"{outside}/test.csv",)), **{key: (str(outside),)})
    assert leak == f"the search sees {outside}/test.csv, too: benchmark.{key} names {outside}"


def test_held_out_files_that_a_mount_shows_to_the_search_are_a_leak(user: User):
    (leak,) = leaks(user, {}, mounts=("heldout",))
    assert leak == "the search sees heldout/test.csv, too: benchmark.mounts names heldout"


def test_data_among_the_files_that_the_search_sees_is_a_leak(user: User):
    assert leaks(user, {}, Audit(data=("data/train.csv",)))[0].startswith("data/train.csv is among the files")


def test_the_digest_covers_the_command_the_files_and_the_data(user: User, tmp_path: Path):
    base = user.commits(BASE)
    data = tmp_path / "more.csv"
    data.write_text("1\n")
    audit = Audit("score", ("heldout",), (str(data),))
    first = split(user, base, audit).digest
    assert split(user, base, audit).digest == first
    assert split(user, user.commits({"model.py": "pass\n"}), audit).digest == first
    others = [split(user, base, replace(audit, command="other")).digest]
    data.write_text("2\n")
    others.append(split(user, base, audit).digest)
    others.append(split(user, user.commits({"heldout/test.csv": "another\n"}), audit).digest)
    assert len({first, *others}) == 4


def test_a_missing_split_is_misuse(user: User):
    base = user.commits(BASE)
    with pytest.raises(Misuse, match=r"audit\.files names no file"):
        assert split(user, base, Audit(files=("nowhere",))).digest
    with pytest.raises(Misuse, match=r"audit\.data names nowhere"):
        assert split(user, base, Audit(data=("nowhere",))).digest
