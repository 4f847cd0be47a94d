"""Which files a proposal may change, and what a node's folder holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.access import Access, ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.proposal import Edits, Proposal
from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import replace
from loopty.ledgers.sqlite import MemoryLedger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.workspaces.node_folders import NodeFolders
from loopty.workspaces.node_refs import NodeRefs
from loopty.workspaces.state_folder import StateFolder

MARKED = "frozen = 1\n# EVOLVE-BLOCK-START\nfree = 1\n# EVOLVE-BLOCK-END\nfrozen = 2\n"


@pytest.fixture
def refusal(user: Any, files_of: Callable[..., Any], node: Callable[..., Any]) -> Callable[..., str | None]:
    """Why edits of a repository with a bit of everything are refused."""
    user.writes(
        {"evaluate.py": "e", "bench/data.csv": "1", "src/a.py": "a", "src/sub/b.py": "b", "marked.py": MARKED}
    )
    (user.top / "link").symlink_to("src")
    (user.top / "filelink").symlink_to("src/a.py")
    (user.top / "binary").write_bytes(b"\xff\x00")
    user.commits()
    base = node("1", user.repository.head())

    def check(edits: Edits, files: tuple[str, ...] = ("evaluate.py",), **benchmark: object) -> str | None:
        node_files = files_of(user, Access(write=("**",)), files=files, **benchmark)
        reason: str | None = node_files.refusal(base, Proposal("hand", base.id, "", edits=edits))
        assert reason is None or len(reason.splitlines()) == 1
        return reason

    return check


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"src/a.py": "x"},
        {"src/new/deep.py": "x", "src/new/too.py": "x"},
        {"src/sub/b.py": None},
        {"binary": b"\xff"},
        {"nothing": None},
        {"marked.py": MARKED.replace("free = 1", "free = 2\nmore = 3")},
    ],
)
def test_allowed_edits_are_accepted(refusal: Callable[..., str | None], edits: Edits) -> None:
    assert refusal(edits) is None


@pytest.mark.parametrize(
    ("edits", "word"),
    [
        ({"evaluate.py": "x"}, "part of the benchmark"),
        ({"evaluate.py": None}, "part of the benchmark"),
        ({"src": "x"}, "is a directory"),
        ({"src": None}, "is a directory"),
        ({"src/a.py/x": "x"}, "src/a.py is a file"),
        ({"src/a.py": None, "src/a.py/x": "x"}, "src/a.py"),
        ({"new": "x", "new/below": "x"}, "new"),
        ({"new/below": "x", "new": "x"}, "new"),
        ({"link": "x"}, "link"),
        ({"link": None}, "link"),
        ({"filelink": "x"}, "link"),
        ({"link/a.py": "x"}, "link is a file"),
        ({"marked.py": MARKED.replace("frozen = 1", "frozen = 3")}, "outside the marked blocks"),
        ({"marked.py": MARKED.replace("# EVOLVE-BLOCK-END\n", "")}, "marked blocks"),
        ({"marked.py": None}, "marked blocks"),
        ({"marked.py": b"\xff"}, "marked blocks"),
        ({".git/hooks/pre-commit": "x"}, "may not change"),
        ({".GIT/config": "x"}, "may not change"),
        ({"loopty.toml": "x"}, "may not change"),
        ({".loopty/ledger.sqlite": None}, "may not change"),
        ({"../out": "x"}, "may not change"),
    ],
)
def test_forbidden_edits_are_refused_with_a_reason(
    refusal: Callable[..., str | None], edits: Edits, word: str
) -> None:
    assert word in (refusal(edits) or "")


def test_a_new_file_among_the_benchmarks_files_is_refused(refusal: Callable[..., str | None]) -> None:
    assert "benchmark" in (refusal({"bench/conftest.py": "x"}, files=("bench/**", "evaluate.py")) or "")
    assert refusal({"bench/conftest.py": "x"}) is None


@pytest.mark.parametrize("path", ["build", "src/out"])
def test_a_file_in_place_of_a_scratch_directory_is_refused(refusal: Callable[..., str | None], path: str) -> None:
    assert "is a directory" in (refusal({path: "x"}, scratch=("build", "src/out/deep")) or "")


def test_a_path_that_git_would_refuse_never_reaches_git(refusal: Callable[..., str | None]) -> None:
    for path in ("git~1/x", ".git./x", ".git /x", "x" * 300, "a\0b"):
        assert refusal({path: "x"})


def test_the_regular_files_that_the_rules_name_are_writable(user: Any, files_of: Callable[..., Any]) -> None:
    user.writes({"evaluate.py": "e", "src/a.py": "a", "src/secret.py": "s", "other.py": "o", "loopty.toml": ""})
    (user.top / "src" / "link.py").symlink_to("a.py")
    commit = user.commits()
    access = Access(write=("src/*.py", "evaluate.py", "loopty.toml"), hidden=("src/secret.py",))
    assert files_of(user, access, files=("evaluate.py",)).writable_files(commit) == ["src/a.py"]
    assert files_of(user, access).writable_files(commit) == ["evaluate.py", "src/a.py"], (
        "a command may run a writable file"
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python3 evaluate.py", ["evaluate.py"]),
        ("python3 ./evaluate.py --data 'data dir/x.csv'", ["evaluate.py", "data dir/x.csv"]),
        (("python3", "evaluate.py"), ["evaluate.py"]),
        ("echo 'unfinished evaluate.py", ["evaluate.py"]),
        ("make", []),
    ],
)
def test_the_benchmark_consists_of_the_files_that_its_command_names(
    user: Any, files_of: Callable[..., Any], command: str, expected: list[str]
) -> None:
    commit = user.commits({"evaluate.py": "e", "data dir/x.csv": "1", "src/a.py": "a"})
    files = files_of(user, Access(), command=command)
    assert [path for path in user.repository.files(commit) if files.benchmark.includes(path)] == sorted(expected)


def test_only_a_literal_name_in_write_makes_a_file_in_the_command_the_candidate(
    user: Any, files_of: Callable[..., Any]
) -> None:
    commit = user.commits({"train.py": "t"})
    for write, expected in ((("**",), []), (("*.py",), []), (("train.py",), ["train.py"])):
        files = files_of(user, Access(write=write), command="python3 train.py")
        assert files.writable_files(commit) == expected


def test_the_digest_changes_with_the_benchmark_and_with_nothing_else(
    user: Any, files_of: Callable[..., Any]
) -> None:
    first = user.commits({"evaluate.py": "e", "src/a.py": "a"})
    second = user.commits({"src/a.py": "b"})
    third = user.commits({"evaluate.py": "f"})
    digest = files_of(user, Access()).benchmark.digest
    assert digest(first) == digest(second) != digest(third)


def test_a_node_is_kept_and_gets_a_folder_once(
    user: Any, files_of: Callable[..., Any], node: Callable[..., Any]
) -> None:
    (user.top / "latin").write_bytes(b"caf\xe9\n")
    user.commits({"evaluate.py": "e"})
    files = files_of(user, Access(write=("**",)))
    root = node("1", user.repository.head())
    committed = files.commit(root, {"latin": b"th\xe9\n"}, "rewrite: thé")
    made = replace(node("1.1", committed), params={"lr": 0.5})
    files.publish(made, root)
    files.publish(made, root)
    folders = NodeFolders(StateFolder.of(user.repository.folders, {}))
    assert not folders.open(made.id).folded, "its folder is made with the verdict"
    assert b"-caf\xe9\n+th\xe9\n" in files.folders.new_description(made.id)["change.diff"]
    assert NodeRefs(user.repository).commits(1) == [committed.commit]
    recorder = Recorder(MemoryLedger(), lambda: 0.0)
    recorder.record(
        lambda _: [
            RunStarted(1, "criteria", Objective(), 0, "first"),
            *(NodeAdded(each.id, Pool.ATTEMPT, "hand", "", each.commit, each.tree, {}) for each in (root, made)),
        ]
    )
    for each in (files, files_of(user, Access(write=("**",)))):  # another process makes the change again
        each.conclude(replace(made, verdict=Verdict.KEPT), recorder.history)
        folder = folders.open(made.id)
        assert json.loads(folder.read("params.json")) == {"lr": 0.5}
        assert b"-caf\xe9\n+th\xe9\n" in folder.read("change.diff")
        folders.remove(made.id)
    assert user.git("status", "--porcelain") == b"", "the state folder ignores itself"


def test_a_branch_of_a_node_with_new_parameters_that_somebody_moved_stays_where_it_is(
    user: Any, files_of: Callable[..., Any], node: Callable[..., Any]
) -> None:
    user.commits({"evaluate.py": "e"})
    user.git("config", "loopty.branches", "true")
    files, head = files_of(user, Access(write=("**",))), user.repository.head()
    root, made = node("1", head), replace(node("1.1", head), params={"lr": 0.5})
    files.publish(made, root)
    assert user.repository.refs.branch_tip(made.id.branch) == head.commit
    moved = user.commits({"evaluate.py": "f"})
    user.repository.refs.make_branch(made.id.branch, moved, move=True)
    files.publish(made, root)  # with each of its trials
    assert user.repository.refs.branch_tip(made.id.branch) == moved


def test_after_a_kill_the_newest_commits_are_held_but_not_those_of_another_clone(
    user: Any, files_of: Callable[..., Any]
) -> None:
    user.commits({"evaluate.py": "e", "a": "1"})
    files, base = files_of(user, Access(write=("**",))), user.repository.head()
    recorder = Recorder(MemoryLedger(), lambda: 0.0)
    recorder.record(lambda _: [RunStarted(1, "criteria", Objective(), 0, "first")])

    def add(name: str, commit: str) -> None:
        recorder.record(lambda _: [NodeAdded(NodeId(name), Pool.ATTEMPT, "hand", "", commit, base.tree, {})])

    add("1", base.commit)
    files.hold_newest(1, recorder.history)
    assert NodeRefs(user.repository).runs() == [], "a run without changes has nothing to hold"
    made = [user.repository.commit(base.commit, {"a": f"{number}"}, {}, "made").commit for number in range(3)]
    for number, commit in enumerate([*made, ObjectName("d7" * 20)], start=1):
        add(f"1.{number}", commit)
    files.hold_newest(1, recorder.history)
    assert NodeRefs(user.repository).commits(1) == made[::-1]
    tip = user.git("rev-parse", "refs/loopty/runs/1")
    files.hold_newest(1, recorder.history)
    assert user.git("rev-parse", "refs/loopty/runs/1") == tip, "what is held is not held again"
    user.git("fsck", "--strict")


def test_no_edits_make_no_commit(user: Any, files_of: Callable[..., Any], node: Callable[..., Any]) -> None:
    user.commits({"a": "1"})
    head = user.repository.head()
    assert files_of(user, Access()).commit(node("1", head), {}, "m") == head


def test_a_directory_in_the_command_is_the_benchmarks_unless_write_names_it(
    user: Any, files_of: Callable[..., Any]
) -> None:
    commit = user.commits({"tests/test_a.py": "t", "src/a.py": "a"})
    broad = files_of(user, Access(write=("**",)), command="pytest tests")
    assert broad.writable_files(commit) == ["src/a.py"]
    closer = files_of(user, Access(write=("src/**",)), command="pytest src")
    assert closer.writable_files(commit) == ["src/a.py"]
    assert not files_of(user, Access(write=("**",)), command="make bench").benchmark.has_any(commit)


def test_a_file_in_place_of_a_mount_is_refused(refusal: Callable[..., str | None]) -> None:
    assert "is a directory" in (refusal({"data": "x"}, mounts=("data",)) or "")


def test_a_proposer_sees_no_hidden_files_links_or_large_data(user: Any, files_of: Callable[..., Any]) -> None:
    user.writes({"evaluate.py": "e", "src/ä b.py": "a", "secret/x.txt": "s", "data.csv": "1" * 1_000_001})
    user.writes({"loopty.toml": "seed = 1"})
    (user.top / "link").symlink_to("src")
    commit = user.commits()
    assert files_of(user, Access(write=("src/**",), hidden=("secret",))).readable_files(commit) == [
        "evaluate.py",
        "src/ä b.py",
    ]
    narrow = files_of(user, Access(write=("src/**",), read=("docs/**",)))
    assert narrow.readable_files(commit) == ["src/ä b.py"]


def test_a_proposer_sees_no_file_that_usually_holds_a_key(user: Any, files_of: Callable[..., Any]) -> None:
    names = (".env", "web/.env.local", "deploy/Server.PEM", "id_rsa", ".aws/credentials", ".netrc")
    user.writes(dict.fromkeys((*names, "src/table.key", "environment.py"), "a secret"))
    commit = user.commits()
    assert files_of(user, Access(write=("src/**",))).readable_files(commit) == ["environment.py", "src/table.key"]


def test_a_merge_brings_no_file_that_may_not_change_now(user: Any, files_of: Callable[..., Any]) -> None:
    base = user.commits({"src/a.py": "a", "src/gold.py": "gold", "src/.env": "key"})
    ours = user.commits({"src/a.py": "b"})
    theirs = user.commits({"src/a.py": "b", "src/new.py": "n", "src/gold.py": "more gold", "src/.env": "another"})
    merged = files_of(user, Access(write=("src",), hidden=("src/gold.py",))).merge(base, ours, theirs, ("o", "t"))
    assert merged.edits == {"src/new.py": b"n"}
    assert merged.conflicts == ("src/.env", "src/gold.py")


IMPORTS = {
    "bench/run.py": "import helper, numpy\nfrom tools.clock import now\nfrom mine import answer\nimport secret\n",
    "bench/helper.py": "from . import nothing\n",
    "bench/run.sh": '. "$(dirname "$0")/common.sh"\npython3 bench/run.py\n',
    "bench/common.sh": "",
    "bench/run.js": 'const a = require("./part");\nimport b from "../lib/b.mjs";\n',
    "bench/part/index.js": "",
    "lib/b.mjs": 'import "./c.js"\n',
    "lib/c.js": "",
    "tools/__init__.py": "",
    "tools/clock.py": "from .deep import more\n",
    "tools/deep.py": "def broken(:\n",
    "mine.py": "import behind\n",
    "behind.py": "",
    "bench/secret.py": "",
    "tests/conftest.py": "import shared\n",
    "tests/unit/test_a.py": "",
    "shared.py": "",
    "pkg/__init__.py": "",
    "pkg/bench.py": "",
}


@pytest.mark.parametrize(
    ("command", "imports"),
    [
        ("python3 bench/run.py", "bench/helper.py tools/__init__.py tools/clock.py tools/deep.py"),
        (
            "sh bench/run.sh",
            "bench/common.sh bench/run.py bench/helper.py tools/__init__.py tools/clock.py tools/deep.py",
        ),
        ("node bench/run.js", "bench/part/index.js lib/b.mjs lib/c.js"),
        ("python3 -m pytest tests/unit/test_a.py", "tests/conftest.py shared.py"),
        ("python3 -m pkg.bench", "pkg/__init__.py pkg/bench.py"),
    ],
)
def test_what_the_benchmark_s_files_load_belongs_to_it_but_nothing_that_may_be_written(
    user: Any, files_of: Callable[..., Any], command: str, imports: str
) -> None:
    commit = user.commits(IMPORTS)
    access = Access(write=("mine.py",), hidden=("bench/secret.py",))
    files = files_of(user, access, command=command)
    own = {
        path
        for path in IMPORTS
        if files.benchmark.includes_or_loads(path, commit) and not files.benchmark.includes(path)
    }
    assert own == set(imports.split())
    every = {path for path in IMPORTS if files.benchmark.includes_or_loads(path, commit)}
    assert set(files.benchmark.files(commit)) == every
    digest = files.benchmark.digest
    assert digest(user.commits({"mine.py": "x"})) == digest(commit)
    assert digest(user.commits({imports.split()[-1]: "changed"})) != digest(commit)
    named = files_of(user, access, command=command, files=("bench/**",))
    assert not named.benchmark.includes_or_loads("tools/clock.py", commit)
