"""Stages of trials: exports that many processes may build at once, and the files that a trial sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loopty.domain.access import Access
from loopty.domain.errors import Misuse
from loopty.domain.launch import SandboxError
from loopty.domain.task import Rig
from loopty.domain.trial import Pool
from loopty.engine.protocols import Trial
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import MemoryLedger
from loopty.workspaces.exports import export_commit
from loopty.workspaces.stages import BENCHMARK, OUTBOX, TREE, Stages
from loopty.workspaces.state_folder import StateFolder

FILES = {
    "evaluate.py": "e",
    "answers/gold.json": "gold",
    "answers/other.json": "other",
    "src/a.py": "a",
    "src/b.py": "b",
    "notes/x": "n",
}


def rig_of(task: Any) -> Rig:
    return Rig(task.benchmark, task.limits, task.access, task.audit, task.sandbox)


@pytest.fixture
def staged(user: Any, files_of: Callable[..., Any], task_of: Callable[..., Any]) -> Callable[..., Any]:
    """The stages of a repository under these rules, and the trial of a node with these edits."""
    user.commits(FILES)

    def make(access: Access, edits: dict[str, str | None], node: Callable[..., Any], **benchmark: object) -> Any:
        files = files_of(user, access, **benchmark)
        stages = Stages(
            user.repository,
            StateFolder.of(user.repository.folders),
            rig_of(task_of(access, **benchmark)),
            files,
            None,
        )
        root = node("1", user.repository.head())
        child = node("1.1", files.commit(root, edits, "m"))
        return stages, Trial(child, root, number=1, pool=Pool.ATTEMPT, seed=0)

    return make


def visible_files(stage: Any, folder: Path, top: str = TREE) -> dict[str, str]:
    """The files that a trial would see in its tree, by copying the mounts in their order."""
    for mount in stage.mounts:
        if mount.target != top and not mount.target.startswith(f"{top}/"):
            continue
        target = folder / mount.target.removeprefix(top).lstrip("/")
        if mount.source.is_dir():
            shutil.copytree(mount.source, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(mount.source, target)
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_hidden_files_are_absent_except_those_of_the_benchmark(
    staged: Callable[..., Any], node: Callable[..., Any], tmp_path: Path
) -> None:
    access = Access(write=("src/a.py",), read=("src/**",), hidden=("answers",))
    stages, trial = staged(access, {"src/a.py": "changed"}, node, files=("evaluate.py", "answers/gold.json"))
    with stages.stage(trial) as stage:
        seen = visible_files(stage, tmp_path / "seen")
    assert seen == {"evaluate.py": "e", "answers/gold.json": "gold", "src/a.py": "changed", "src/b.py": "b"}


def test_a_stage_is_gone_afterwards_and_its_export_stays(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any
) -> None:
    stages, trial = staged(Access(write=("src",)), {"src/new.py": "n"}, node, scratch=("build/out",))
    with stages.stage(trial) as stage:
        assert stage.inbox.file("params.json").read() == b"{}"
        assert [mount.target for mount in stage.mounts if mount.writable] == [OUTBOX]
        stage.outbox.file("mine").write(b"x")
        outbox = stage.outbox
    assert not outbox.exists()
    (export,) = (user.top / ".git/loopty" / "exports").iterdir()
    assert (export / "build" / "out").is_dir(), "a directory to put the scratch space on"
    assert not (export / "src" / "new.py").exists()


def test_leftovers_of_dead_processes_are_swept_and_those_of_living_ones_are_not(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any
) -> None:
    stages, trial = staged(Access(write=("src",)), {}, node)
    trials = user.top / ".git/loopty/trials"
    # The last two: of a process that had our pid before, and of an older loopty.
    for name in ("1-aa", "999999999-bb", f"{os.getpid()}-cc", "1.7-1"):
        (trials / name / "out").mkdir(parents=True)
    with stages.stage(trial):
        stages.sweep(MemoryLedger().history)
        assert {path.name for path in trials.iterdir()} == {"1-aa", f"{os.getpid()}-{trial.token}"}


def test_a_missing_mount_of_the_task_is_misuse(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any, tmp_path: Path
) -> None:
    stages, trial = staged(Access(write=("src",)), {}, node, mounts=(str(tmp_path / "nowhere"),))
    with pytest.raises(Misuse, match=r"benchmark\.mounts"), stages.stage(trial):
        pass
    assert list((user.top / ".git/loopty" / "trials").iterdir()) == []


def test_a_relative_host_path_appears_in_the_tree_and_others_at_their_own_paths(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (user.top / "weights").mkdir()
    mounts = ("./weights/", "../data", str(user.top / "weights"))
    stages, trial = staged(Access(write=("src",)), {}, node, mounts=mounts)
    with stages.stage(trial) as stage:
        targets = {mount.target: mount.source for mount in stage.mounts}
    data = tmp_path.resolve() / "data"
    assert targets[f"{TREE}/weights"] == user.top / "weights"
    assert targets[str(user.top / "weights")] == user.top / "weights"
    assert targets[str(data)] == data
    assert not any(".." in target for target in targets)
    assert [path.name for path in (user.top / ".git/loopty" / "exports").iterdir() if path.name == "data"] == []


def test_a_scratch_directory_that_is_a_file_is_misuse(
    staged: Callable[..., Any], node: Callable[..., Any]
) -> None:
    stages, trial = staged(Access(write=("src",)), {}, node, scratch=("evaluate.py",))
    with pytest.raises(Misuse, match=r"evaluate\.py"), stages.stage(trial):
        pass


def test_a_stage_is_readable_under_any_umask(staged: Callable[..., Any], node: Callable[..., Any]) -> None:
    def unreadable_paths(trial: Trial) -> list[Path]:
        with stages.stage(trial) as stage:
            every = [path for mount in stage.mounts for path in (mount.source, *mount.source.rglob("*"))]
            return [path for path in every if not path.stat().st_mode & 0o004]

    before = os.umask(0o077)
    try:
        stages, trial = staged(Access(write=("src",)), {"src/new.py": "n"}, node, scratch=("build",))
        trials = [replace(trial, number=number, token=str(number)) for number in range(1, 9)]
        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(unreadable_paths, trials)) == [[]] * 8
    finally:
        assert os.umask(before) == 0o077


def files_in_mounts(mounts: Any, top: str, folder: Path) -> dict[str, str]:
    return visible_files(SimpleNamespace(mounts=mounts), folder, top)


def test_an_isolated_candidate_sees_nothing_of_the_benchmark(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any, tmp_path: Path
) -> None:
    user.writes({"secret/test.csv": "1,2", "secret/gold": "g"})
    stages, trial = staged(
        Access(write=("src",)),
        {"src/a.py": "changed", "src/new.py": "n"},
        node,
        files=("evaluate.py", "answers"),
        data=("secret/test.csv", "notes"),
        scratch=("build", "build/inner", "out"),
        isolated=True,
    )
    with stages.stage(trial) as stage:
        tree = files_in_mounts(stage.candidate, TREE, tmp_path / "tree")
        assert set(tree) == {"src/a.py", "src/b.py", "src/new.py"}
        assert tree["src/a.py"] == "changed"
        benchmark = files_in_mounts(stage.mounts, BENCHMARK, tmp_path / "benchmark")
        assert benchmark == {
            "evaluate.py": "e",
            "answers/gold.json": "gold",
            "answers/other.json": "other",
            "secret/test.csv": "1,2",
            "notes/x": "n",
        }
        writable = {mount.target for mount in stage.candidate if mount.writable}
        assert writable == {f"{TREE}/build", f"{TREE}/out"}
        assert [path.name for mount in stage.candidate if mount.writable for path in mount.source.iterdir()] == [
            "inner"
        ]
        assert {mount.target for mount in stage.mounts if mount.writable} == {OUTBOX}
        assert not any(mount.target.startswith(TREE) for mount in stage.mounts)


def test_mounts_of_the_task_are_shown_to_both_sides(
    staged: Callable[..., Any], node: Callable[..., Any], user: Any, tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    (user.top / "weights").mkdir()
    stages, trial = staged(Access(), {}, node, mounts=("weights", "../tools"), isolated=True)
    with stages.stage(trial) as stage:
        of_benchmark, of_candidate = ({mount.target for mount in side} for side in (stage.mounts, stage.candidate))
    tools = str(tmp_path.resolve() / "tools")
    assert {f"{BENCHMARK}/weights", tools} <= of_benchmark
    assert {f"{TREE}/weights", tools} <= of_candidate


@pytest.mark.parametrize("isolated", [True, False])
def test_a_benchmark_changed_on_disk_stops_the_trial_with_a_remedy(
    staged: Callable[..., Any], node: Callable[..., Any], isolated: bool
) -> None:
    stages, trial = staged(Access(write=("src",)), {"src/new.py": "n"}, node, isolated=isolated)
    with stages.stage(trial) as stage:
        assert stages.find_tampering(trial) is None
        top = BENCHMARK if isolated else TREE
        (export,) = [mount.source for mount in stage.mounts if mount.target == top]
        (export / "evaluate.py").chmod(0o644)
        (export / "evaluate.py").write_text("forged")
        assert "evaluate.py was changed" in (stages.find_tampering(trial) or "")
    remedy = rf"evaluate\.py was changed: remove {export}, and it is rebuilt"
    with pytest.raises(SandboxError, match=remedy), stages.stage(replace(trial, number=2)):
        pass
    shutil.rmtree(export)
    fresh, again = staged(Access(write=("src",)), {"src/new.py": "n"}, node, isolated=isolated)
    with fresh.stage(again):
        assert (export / "evaluate.py").read_text() == "e"


@pytest.mark.parametrize("isolated", [True, False])
def test_data_that_changes_during_a_trial_is_detected(
    staged: Callable[..., Any], node: Callable[..., Any], tmp_path: Path, isolated: bool
) -> None:
    (tmp_path / "gold").write_text("gold")
    stages, trial = staged(Access(), {}, node, data=("../gold",), isolated=isolated)
    with stages.stage(trial) as stage:
        assert str(tmp_path.resolve() / "gold") in {mount.target for mount in stage.mounts}
        (tmp_path / "gold").write_text("fool's gold")
        assert "/gold was changed" in (stages.find_tampering(trial) or "")
    with pytest.raises(SandboxError, match="restore it"), stages.stage(replace(trial, number=2)):
        pass


@pytest.mark.parametrize("pool", [Pool.REPLAY, Pool.REPEAT])
def test_an_observing_trial_keeps_its_files_in_a_folder_of_its_own(
    staged: Callable[..., Any], node: Callable[..., Any], pool: Pool
) -> None:
    stages, trial = staged(Access(), {}, node)
    with stages.stage(replace(trial, pool=pool, number=4)) as stage:
        assert stage.folder.name == f"{pool}-4"


EXPORT = """
import sys
from pathlib import Path
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.exports import export_commit
from loopty.git.repository import Repository
top, commit, exports = sys.argv[1:]
sys.stdin.read()
repository = Repository.open(Path(top))
folder = SafeFolder(Path(exports).parent, (Path(exports).name,))
print(export_commit(repository, commit, "tree", lambda path: "f1" not in path, ("build",), folder).shown_path)
"""


@pytest.mark.parametrize("is_isolated", [False, True])
def test_a_small_result_of_the_search_needs_no_folder(
    staged: Callable[..., Any], node: Callable[..., Any], is_isolated: bool
) -> None:
    stages, trial = staged(Access(write=("src",)), {"src/a.py": "2"}, node, isolated=is_isolated)
    with stages.stage(trial) as stage:
        assert stage.folder.exists() is is_isolated
        (stage.keep or stage.folder.write_files)({"result.json": b"{}"})
    assert stage.folder.exists() is is_isolated
    assert stages._files.folders.open(trial.node.id).read("result.json") == b"{}"


def test_a_worker_has_a_folder_for_each_trial(staged: Callable[..., Any], node: Callable[..., Any]) -> None:
    stages, trial = staged(Access(write=("src",)), {"src/a.py": "2"}, node)
    stages._folds = False
    with stages.stage(trial) as stage:
        assert stage.keep is None
        assert stage.folder.exists()


def test_eight_processes_that_export_at_once_make_one_good_export(user: Any, tmp_path: Path) -> None:
    commit = user.commits({f"d{n}/f{m}": str(n * m) for n in range(20) for m in range(10)})
    command = [sys.executable, "-c", EXPORT, str(user.top), commit, str(tmp_path / "exports")]
    builders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)
    ]
    for builder in builders:
        assert builder.stdin
        builder.stdin.close()  # which starts it
    exports = set()
    for builder in builders:
        assert builder.stdout
        exports.add(builder.stdout.read().strip())
        builder.stdout.close()
        assert builder.wait() == 0
    (export,) = map(Path, exports)
    assert list((tmp_path / "exports").iterdir()) == [export]
    assert sum(path.is_file() for path in export.rglob("*")) == 180
    assert (export / "d19" / "f9").read_text() == "171"
    assert (export / "build").is_dir()


def test_two_commits_with_the_same_files_share_one_export(user: Any, tmp_path: Path) -> None:
    user.commits({"big": "1"})
    exports = SafeFolder(tmp_path, ("exports",))
    first = user.repository.head().commit
    again = user.git("commit-tree", f"{first}^{{tree}}", "-m", "another").decode().strip()
    other = user.commits({"big": "2"})
    one, two, three = (
        export_commit(user.repository, commit, "", lambda _: True, (), exports).shown_path
        for commit in (first, again, other)
    )
    assert first != again
    assert one == two != three


def test_all_files_of_an_export_have_the_same_time(user: Any, tmp_path: Path) -> None:
    user.commits({"configure": "1", "configure.ac": "2", "src/aclocal.m4": "3"})
    exports = SafeFolder(tmp_path, ("exports",))
    head = user.repository.head().commit
    export = export_commit(user.repository, head, "", lambda _: True, (), exports).shown_path
    assert len({path.stat().st_mtime_ns for path in export.rglob("*") if path.is_file()}) == 1


def test_no_mount_point_is_made_through_a_link_of_the_repository(user: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/set.csv").write_text("1")
    (user.top / "data").symlink_to(tmp_path / "mine")
    user.commits({"evaluate.py": "e", "src/a.py": "a"})
    (tmp_path / "mine/set.csv").rename(tmp_path / "mine/other.csv")
    exports = SafeFolder(tmp_path, ("exports",))
    with pytest.raises(Misuse, match="the commit has a link there"):
        export_commit(
            user.repository,
            user.repository.head().commit,
            "",
            lambda _: True,
            (),
            exports,
            {"data/set.csv": False},
        )
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["other.csv"]
    assert exports.names() == []
