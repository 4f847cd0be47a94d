"""Artifacts: the same bytes each time, all of it or nothing, and never trusted without a check."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.trial import Effect, Ending, Integrity, Outcome, Verdict
from loopty.engine.protocols import CommittedFiles
from loopty.git.bundles import write_bundle
from loopty.git.repository import Repository
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.record.node_record import Result
from loopty.workspaces.artifact import open_artifact, pack_artifact, unpack_artifact
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.node_folders import NodeFolder

TASK = b'[benchmark]\ncommand = "sh bench.sh"\ntimeout_seconds = 5\n'
FILES = {"src/x.txt": "5\n", "bench.sh": "echo\n", "loopty.toml": TASK.decode(), "a/b/c.txt": "deep\n"}


def make_manifest(baseline: CommittedFiles, node: CommittedFiles) -> Manifest:
    outcome = Outcome(
        Ending.FINISHED,
        {"score": 6.0, "seconds": 0.25},
        {"seconds": Direction.MIN},
        seconds=1.5,
        unenforced=("swap",),
        integrity=Integrity.STRONG,
        fingerprint="aaaaaaaaaaaa",
    )
    return Manifest(
        node=NodeId("1.3"),
        operator="rewrite",
        summary="six is more — märchen",
        commit=node.commit,
        tree=node.tree,
        baseline_commit=baseline.commit,
        baseline_tree=baseline.tree,
        seed=7,
        verdict=Verdict.KEPT,
        reason="better",
        judged_at=1700000000.25,
        objective=Objective(metrics=(Metric("score", tolerance=0.5),)),
        counting=(Metric("score", tolerance=0.5),),
        outcome=outcome,
        benchmark="b" * 64,
        data="d" * 64,
        criteria={"benchmark files": "b" * 16},
        loopty="0.1",
        params={"x": 0.5, "kind": "b", "deep": True, "n": 3},
        gates=(Gate("small", metric="seconds", maximum=1.0), Gate("tests", "sh t.sh")),
        samples=({"score": 6.0, "seconds": 0.25}, {"score": 6.25, "seconds": 0.125}),
        effect=Effect("score", 1.0, 6, 0.05),
        other_fingerprints={"bbbbbbbbbbbb": Result(outcome, ({"score": 5.5},))},
        machines={"aaaaaaaaaaaa": {"cpu": "A", "cores": "2"}},
    )


@dataclasses.dataclass(frozen=True)
class Winner:
    """A node of a repository, ready to be exported."""

    repository: Repository
    manifest: Manifest
    folder: Path

    def pack(self, target: Path, force: bool = False) -> str:
        return pack_artifact(
            self.repository, self.manifest, TASK, NodeFolder(SafeFolder(self.folder), {}), target, force
        )


def make_winner(user) -> Winner:
    user.commits({"secret.txt": "a history that nobody asked for\n"})
    (user.top / "secret.txt").unlink()
    user.commits(FILES)
    repository = user.repository
    baseline = repository.head()
    node = repository.commit(
        baseline.commit, {"src/x.txt": "6\n", "src/raw.bin": b"\0\xff\r\n", "a/b/c.txt": None}, {}, "six\n"
    )
    repository.refs.make_branch("loopty-1.3", node.commit)
    folder = user.top.parent / "node"
    folder.mkdir()
    (folder / "result.json").write_text('{"score": 6}')
    (folder / "metrics.csv").write_text("step,score\n1,6\n")
    (folder / "stdout.log").write_text("not worth keeping\n")
    return Winner(repository, make_manifest(baseline, node), folder)


@pytest.fixture
def winner(user) -> Winner:
    return make_winner(user)


@pytest.fixture(params=["winner.tar.gz", "winner"])
def name(request) -> str:
    return request.param


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_an_artifact_is_read_back_as_it_was_written(winner, tmp_path, name):
    digest = winner.pack(tmp_path / name)
    with open_artifact(tmp_path / name) as artifact:
        assert artifact.manifest == winner.manifest
        assert artifact.digest == digest
        assert (artifact.folder / "loopty.toml").read_bytes() == TASK
        assert (artifact.folder / "metrics.csv").read_text() == "step,score\n1,6\n"
    assert not artifact.folder.exists()


def test_common_tools_can_read_an_artifact(winner, tmp_path):
    winner.pack(tmp_path / "winner.tar.gz")
    subprocess.run(["tar", "xzf", "winner.tar.gz"], cwd=tmp_path, check=True)
    folder = tmp_path / "loopty-1.3"
    optional = ["metrics.csv", "result.json"]
    needed = ["SHA256SUMS", "change.patch", "loopty.toml", "manifest.json", "params.json", "source.bundle"]
    assert names(folder) == sorted([*needed, *optional])
    subprocess.run(["sha256sum", "--quiet", "--check", "SHA256SUMS"], cwd=folder, check=True)
    subprocess.run(["git", "clone", "-q", folder / "source.bundle", tmp_path / "clone"], check=True)
    assert (tmp_path / "clone/src/x.txt").read_text() == "6\n"
    assert json.loads((folder / "manifest.json").read_text())["outcome"]["integrity"] == "strong"


def test_weak_integrity_is_recorded_too(winner):
    weak = replace(winner.manifest.outcome, integrity=Integrity.WEAK)
    manifest = replace(winner.manifest, outcome=weak)
    assert json.loads(manifest.text)["outcome"]["integrity"] == "weak"


def test_the_patch_turns_the_baseline_into_the_winner(winner, tmp_path, user):
    winner.pack(tmp_path / "winner")
    subprocess.run(["git", "apply", "--index", tmp_path / "winner/change.patch"], cwd=user.top, check=True)
    assert user.git("write-tree").decode().strip() == winner.manifest.tree


def test_an_unpacked_artifact_is_a_repository_at_the_baseline_without_history(winner, tmp_path, name, user):
    winner.pack(tmp_path / name)
    with open_artifact(tmp_path / name) as artifact:
        unpacked = unpack_artifact(artifact, tmp_path / "there")
    top = tmp_path / "there"
    assert unpacked.contradictions == ()
    assert unpacked.node.tree == winner.manifest.tree
    assert unpacked.baseline.tree == winner.manifest.baseline_tree
    assert {path: text.decode() for path, text in contents(top).items() if not path.startswith(".git/")} == FILES
    assert user.git("log", "--all", "--format=%s", at=top).split() == [b"baseline", b"winner"]
    assert user.git("status", "--porcelain", at=top) == b""
    assert b"secret" not in user.git("rev-list", "--objects", "--all", at=top)
    assert unpacked.repository.working_tree.snapshot("as it is").tree == winner.manifest.baseline_tree


def test_an_untracked_task_file_is_included_and_changes_no_tree(user, tmp_path):
    user.commits({"src/x.txt": "5\n"})
    baseline = user.repository.head()
    node = user.repository.commit(baseline.commit, {"src/x.txt": "6\n"}, {}, "six\n")
    pack_artifact(
        user.repository,
        make_manifest(baseline, node),
        TASK,
        NodeFolder(SafeFolder(tmp_path), {}),
        tmp_path / "winner",
    )
    with open_artifact(tmp_path / "winner") as artifact:
        unpacked = unpack_artifact(artifact, tmp_path / "there")
    assert (tmp_path / "there/loopty.toml").read_bytes() == TASK
    assert unpacked.repository.working_tree.snapshot("as it is").tree == baseline.tree
    assert unpacked.contradictions == ()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/loopty.toml").write_text("mine")
    with open_artifact(tmp_path / "winner") as artifact, pytest.raises(Misuse, match="File exists"):
        unpack_artifact(artifact, tmp_path / "mine")
    assert (tmp_path / "mine/loopty.toml").read_text() == "mine"


def test_a_node_that_changes_only_parameters_can_be_an_artifact(user, tmp_path):
    user.commits(FILES)
    head = user.repository.head()
    pack_artifact(
        user.repository,
        make_manifest(head, head),
        TASK,
        NodeFolder(SafeFolder(tmp_path), {}),
        tmp_path / "w.tar.gz",
    )
    with open_artifact(tmp_path / "w.tar.gz") as artifact:
        unpacked = unpack_artifact(artifact, tmp_path / "there")
    assert unpacked.node.tree == unpacked.baseline.tree == head.tree
    assert unpacked.contradictions == ()


def test_a_repository_with_sha256_hashes_works_the_same(start, tmp_path):
    user = start(tmp_path / "long", "--object-format=sha256")
    winner = make_winner(user)
    winner.pack(tmp_path / "winner")
    with open_artifact(tmp_path / "winner") as artifact:
        unpacked = unpack_artifact(artifact, tmp_path / "there")
    assert unpacked.node.tree == winner.manifest.tree
    assert len(unpacked.node.tree) == 64


def test_links_modes_and_odd_names_are_preserved(user, tmp_path):
    user.commits({"run.sh": "echo\n", "with space": "a\n", "ümläut.txt": "b\n", "crlf.txt": "a\r\nb\r\n"})
    (user.top / "run.sh").chmod(0o755)
    (user.top / "link").symlink_to("/etc/passwd")
    user.commits()
    baseline = user.repository.head()
    node = user.repository.commit(baseline.commit, {"with space": "changed\n", "new\tname": "x"}, {}, "c\n")
    pack_artifact(
        user.repository,
        make_manifest(baseline, node),
        TASK,
        NodeFolder(SafeFolder(tmp_path), {}),
        tmp_path / "winner",
    )
    with open_artifact(tmp_path / "winner") as artifact:
        unpacked = unpack_artifact(artifact, tmp_path / "there")
    assert unpacked.node.tree == node.tree
    assert unpacked.contradictions == ()
    assert (tmp_path / "there/link").is_symlink()
    assert os.access(tmp_path / "there/run.sh", os.X_OK)


def test_the_same_node_gives_the_same_bytes_no_matter_how_git_packed_it(winner, tmp_path, user):
    winner.pack(tmp_path / "one.tar.gz")
    user.git("gc", "--quiet", "--aggressive", "--prune=now")
    for setting in (
        "pack.threads=4",
        "core.compression=9",
        "i18n.commitEncoding=latin1",
        "diff.context=9",
        "diff.noprefix=true",
    ):
        user.git("config", *setting.split("="))
    time.sleep(1.1)
    winner.pack(tmp_path / "two.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert (
        winner.pack(tmp_path / "folder")
        == hashlib.sha256((tmp_path / "folder/SHA256SUMS").read_bytes()).hexdigest()
    )


def test_exporting_touches_neither_branches_nor_the_working_tree(winner, tmp_path, user):
    before = user.git("for-each-ref"), user.git("status", "--porcelain"), user.git("log", "--all", "--format=%H")
    winner.pack(tmp_path / "winner")
    assert (
        user.git("for-each-ref"),
        user.git("status", "--porcelain"),
        user.git("log", "--all", "--format=%H"),
    ) == before


def test_an_existing_artifact_is_replaced_only_with_force(winner, tmp_path, name):
    digest = winner.pack(tmp_path / name)
    before = (tmp_path / name).stat().st_ino
    with pytest.raises(Misuse, match="--force"):
        winner.pack(tmp_path / name)
    assert (tmp_path / name).stat().st_ino == before
    assert winner.pack(tmp_path / name, force=True) == digest
    assert (tmp_path / name).stat().st_ino != before
    assert names(tmp_path) == sorted([name, "node", "repo"])


def test_force_replaces_only_artifacts(winner, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("years of work")
    (tmp_path / "dir.tar.gz").mkdir()
    (tmp_path / "link.tar.gz").symlink_to("file")
    for name in ("mine", "file", "dir.tar.gz", "link.tar.gz"):
        with pytest.raises(Misuse, match="not an artifact"):
            winner.pack(tmp_path / name, force=True)
    assert (mine / "thesis.txt").read_text() == (tmp_path / "file").read_text() == "years of work"


def test_an_unwritable_target_is_reported_in_one_line(winner, tmp_path):
    (tmp_path / "file").write_text("")
    for target in (
        tmp_path / "no/such/winner",
        tmp_path / "file/winner",
        Path("/proc/winner"),
        tmp_path / ("x" * 250),
    ):
        with pytest.raises(Misuse, match="--to") as caught:
            winner.pack(target)
        assert "\n" not in str(caught.value)


def test_exports_to_one_target_take_turns_and_later_ones_overwrite_nothing(winner, tmp_path, name):
    with ThreadPoolExecutor() as pool:
        turns = [pool.submit(winner.pack, tmp_path / name) for _ in range(6)]
    faults = [turn.exception() for turn in turns]
    assert faults.count(None) == 1
    assert all("--force" in str(fault) for fault in faults if fault)
    assert names(tmp_path) == sorted([name, "node", "repo"])
    with open_artifact(tmp_path / name):
        pass


def test_the_next_export_removes_leftovers_of_a_killed_one(winner, tmp_path):
    (tmp_path / ".winner.making/loopty-1.3").mkdir(parents=True)
    (tmp_path / ".winner.making/loopty-1.3/source.bundle").write_bytes(b"half of it")
    winner.pack(tmp_path / "winner")
    assert names(tmp_path) == ["node", "repo", "winner"]


EXPORT = """
import pickle, sys
from pathlib import Path
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.artifact import pack_artifact
from loopty.workspaces.node_folders import NodeFolder
from loopty.git.repository import Repository
times, manifest, task, folder, top, target = pickle.loads(sys.stdin.buffer.read())
print(flush=True)
for _ in range(times):
    pack_artifact(Repository.open(top), manifest, task, NodeFolder(SafeFolder(folder), {}), target, force=True)
"""


def job(winner: Winner, target: Path, times: int) -> bytes:
    """The input of the script above."""
    return pickle.dumps((times, winner.manifest, TASK, winner.folder, winner.repository.top, target))


def start_export(winner: Winner, target: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", EXPORT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin
    assert process.stdout
    process.stdin.write(job(winner, target, 1000))
    process.stdin.close()
    process.stdout.readline()
    return process


def test_a_kill_at_any_moment_leaves_a_whole_artifact_or_none(winner, tmp_path, name):
    rng = random.Random(3)
    target = tmp_path / "out" / name
    target.parent.mkdir()
    whole = 0
    for attempt in range(12):
        process = start_export(winner, target)
        time.sleep(rng.uniform(0.0, 0.12))
        while attempt == 11 and not target.exists():  # on a busy machine none before may have come so far
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout
        process.stdout.close()
        if target.exists():
            with open_artifact(target) as artifact:
                assert artifact.manifest == winner.manifest
            whole += 1
    winner.pack(target, force=True)
    assert names(target.parent) == [name]
    assert whole


def test_a_full_disk_leaves_nothing_and_is_reported_in_one_line(winner, tmp_path, name):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True).returncode:
        pytest.skip("only root can make a small disk")
    try:
        with pytest.raises(Misuse, match="No space left") as caught:
            winner.pack(disk / name)
        assert "\n" not in str(caught.value)
        assert names(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("limit", [0, 100, 1500])
def test_a_file_size_limit_leaves_nothing(winner, tmp_path, limit):
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n{EXPORT}"
    stdin = job(winner, tmp_path / "winner.tar.gz", 1)
    done = subprocess.run([sys.executable, "-c", code], input=stdin, capture_output=True)
    assert b"Misuse" in done.stderr
    assert names(tmp_path) == ["node", "repo"]


def test_replacing_fails_without_loss_when_the_disk_fills_up(winner, tmp_path, name):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("only root can make a small disk")
    try:
        winner.pack(disk / name)
        (disk / "rest").write_bytes(b"x" * 4096 * (shutil.disk_usage(disk).free // 4096))
        with pytest.raises(Misuse, match="No space left"):
            winner.pack(disk / name, force=True)
        assert names(disk) == sorted([name, "rest"])
        with open_artifact(disk / name) as artifact:
            assert artifact.manifest == winner.manifest
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.fixture
def folder(winner, tmp_path) -> Path:
    winner.pack(tmp_path / "winner")
    return tmp_path / "winner"


def rewrite_sums(folder: Path) -> None:
    """Rewrite the checksums, as a careful tamperer would."""
    names = sorted(p.name for p in folder.iterdir() if p.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    (folder / "SHA256SUMS").write_text("".join(lines))


def assert_refused(path: Path, match: str) -> None:
    with pytest.raises(Misuse, match=match) as caught, open_artifact(path):
        pass
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "victim", ["manifest.json", "change.patch", "params.json", "source.bundle", "loopty.toml", "result.json"]
)
def test_a_changed_byte_is_detected(folder, victim):
    raw = bytearray((folder / victim).read_bytes())
    raw[len(raw) // 2] ^= 1
    (folder / victim).write_bytes(raw)
    assert_refused(folder, "SHA256SUMS")


@pytest.mark.parametrize("missing", ["manifest.json", "source.bundle", "SHA256SUMS", "params.json"])
def test_a_missing_file_is_named(folder, missing):
    (folder / missing).unlink()
    assert_refused(folder, missing)


def test_a_listed_file_that_is_missing_is_detected(folder):
    (folder / "result.json").unlink()
    assert_refused(folder, "SHA256SUMS")


def test_unknown_files_links_and_pipes_in_the_folder_are_refused(folder):
    (folder / "more.txt").write_text("")
    assert_refused(folder, "more.txt")
    (folder / "more.txt").unlink()
    (folder / "result.json").unlink()
    (folder / "result.json").symlink_to("/etc/passwd")
    assert_refused(folder, "winner")
    (folder / "result.json").unlink()
    os.mkfifo(folder / "result.json")
    assert_refused(folder, "not a plain file")
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()
    assert_refused(folder, "not a plain file")


def test_parameters_that_contradict_the_manifest_are_refused(folder):
    (folder / "params.json").write_text("{}\n")
    rewrite_sums(folder)
    assert_refused(folder, "do not agree")


@pytest.mark.parametrize(
    "change",
    [
        {"node": "1.x"},
        {"node": None},
        {"seed": "7"},
        {"seed": True},
        {"judged_at": "now"},
        {"outcome": {"ending": "splendid"}},
        {"outcome": {"ending": ["finished"]}},
        {"outcome": {"ending": "finished", "metrics": {"score": "6"}}},
        {"outcome": {"ending": "finished", "metrics": {"score": 10**400}}},
        {"outcome": {}},
        {"samples": [1.0]},
        {"counting": {}},
        {"machines": {"a": {"cpu": 1}}},
        {"params": {"x": [1]}},
        {"effect": {"metric": "score"}},
        {"verdict": 3},
        {"criteria": None},
    ],
)
def test_a_manifest_with_wrong_types_is_refused(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **change}))
    rewrite_sums(folder)
    assert_refused(folder, "winner")


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", "[" * 100000, '{"seed": NaN}', "\x00\xff", '{"format": 1}']
)
def test_a_garbage_manifest_is_refused(folder, text):
    (folder / "manifest.json").write_text(text)
    rewrite_sums(folder)
    assert_refused(folder, "manifest.json")


def test_a_missing_field_is_refused_and_a_new_one_is_ignored(folder, winner):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "later": 1}))
    rewrite_sums(folder)
    with open_artifact(folder) as artifact:
        assert artifact.manifest == winner.manifest
    del manifest["tree"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    rewrite_sums(folder)
    assert_refused(folder, "manifest.json")


def test_a_newer_format_asks_for_an_update(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "format": 2, "node": {"new": "shape"}}))
    rewrite_sums(folder)
    assert_refused(folder, "update loopty")


Member = tuple[tarfile.TarInfo, bytes]


def tarball(path: Path, members: list[Member], format: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(path, "w:gz", format=format) as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def members_of(folder: Path, prefix: str = "loopty-1.3/") -> list[Member]:
    return [(tarfile.TarInfo(f"{prefix}{p.name}"), p.read_bytes()) for p in sorted(folder.iterdir())]


def odd_member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


@pytest.mark.parametrize(
    "member",
    [
        odd_member("../../evil"),
        odd_member("/etc/evil"),
        odd_member("../result.json"),
        odd_member("/result.json"),
        odd_member("result.json"),
        odd_member("loopty-1.3/../result.json"),
        odd_member("loopty-1.3/deep/result.json"),
        odd_member("loopty-1.3/manifest.json"),
        odd_member("loopty-1.3/", tarfile.DIRTYPE),
        odd_member("loopty-1.3/result.json", tarfile.SYMTYPE, "/etc/passwd"),
        odd_member("loopty-1.3/result.json", tarfile.LNKTYPE, "loopty-1.3/manifest.json"),
        odd_member("loopty-1.3/result.json", tarfile.FIFOTYPE),
        odd_member("loopty-1.3/result.json", tarfile.CHRTYPE),
        odd_member("loopty-1.3/evil.py"),
    ],
    ids=lambda member: f"{member[0].name} {member[0].type!r}",
)
def test_escaping_paths_links_and_devices_are_refused(folder, tmp_path, member):
    members = [item for item in members_of(folder) if not item[0].name.endswith("result.json")]
    assert_refused(tarball(tmp_path / "evil.tar.gz", [*members, member]), "artifact|plain file")
    assert_refused(tarball(tmp_path / "evil.tar.gz", [member, *members]), "artifact|plain file")


def test_a_handmade_tarball_of_the_same_files_is_accepted(folder, tmp_path, winner):
    with open_artifact(tarball(tmp_path / "mine.tar.gz", members_of(folder, "any/"))) as artifact:
        assert artifact.manifest == winner.manifest


def test_huge_members_and_headers_are_refused_before_they_are_unpacked(tmp_path):
    huge = tarfile.TarInfo("loopty-1.3/result.json")
    huge.size = 1 << 40
    with gzip.open(tmp_path / "huge.tar.gz", "wb") as file:
        file.write(huge.tobuf(tarfile.GNU_FORMAT) + b"\0" * (70 << 20))
    assert_refused(tmp_path / "huge.tar.gz", "larger than")
    long = tarfile.TarInfo("loopty-1.3/" + "x" * 5000)
    assert_refused(tarball(tmp_path / "long.tar.gz", [(long, b"")], tarfile.PAX_FORMAT), "plain file")
    assert_refused(tarball(tmp_path / "long.tar.gz", [(long, b"")], tarfile.GNU_FORMAT), "plain file")


def test_garbage_and_truncated_tarballs_are_refused(winner, tmp_path):
    winner.pack(tmp_path / "winner.tar.gz")
    raw = (tmp_path / "winner.tar.gz").read_bytes()
    torn = tmp_path / "torn.tar.gz"
    rng = random.Random(5)
    for size in (0, 1, 10, *(rng.randrange(len(raw) - 8) for _ in range(40))):
        torn.write_bytes(raw[:size])
        assert_refused(torn, "torn")
    for garbage in (b"\0" * 2000, gzip.compress(b"x" * 2000), gzip.compress(b"\0" * 2000), b"\x1f\x8b"):
        torn.write_bytes(garbage)
        assert_refused(torn, "torn")


def test_a_flipped_bit_is_refused_or_changes_nothing(winner, tmp_path):
    """Some bits say nothing: the padding of a deflate stream, a second code for the same text."""
    winner.pack(tmp_path / "winner.tar.gz")
    raw = (tmp_path / "winner.tar.gz").read_bytes()
    with open_artifact(tmp_path / "winner.tar.gz") as artifact:
        intact = artifact.digest
    broken = tmp_path / "broken.tar.gz"
    rng = random.Random(5)
    accepted = []
    for _ in range(60):
        flipped = bytearray(raw)
        flipped[rng.randrange(10, len(raw) - 8)] ^= 1 << rng.randrange(8)
        broken.write_bytes(flipped)
        with contextlib.suppress(Misuse), open_artifact(broken) as artifact:
            accepted.append(artifact.digest)
    assert len(accepted) < 20
    assert set(accepted) <= {intact}


def test_anything_but_an_artifact_is_refused(tmp_path):
    assert_refused(tmp_path / "none", "No such file")
    (tmp_path / "empty").mkdir()
    assert_refused(tmp_path / "empty", "not a complete artifact")
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "neither a file nor a folder")
    assert_refused(Path("/dev/zero"), "neither a file nor a folder")


def test_an_invalid_bundle_is_refused_in_one_line(folder, tmp_path):
    (folder / "source.bundle").write_bytes(b"# v2 git bundle\n\nPACK")
    rewrite_sums(folder)
    with open_artifact(folder) as artifact, pytest.raises(Misuse, match="cannot be unpacked") as caught:
        unpack_artifact(artifact, tmp_path / "there")
    assert "\n" not in str(caught.value)


def test_existing_files_are_not_overwritten(folder, tmp_path, user):
    there = tmp_path / "there"
    (there / "src").mkdir(parents=True)
    (there / "src/x.txt").write_text("mine")
    with open_artifact(folder) as artifact, pytest.raises(Misuse, match=r"src/x\.txt"):
        unpack_artifact(artifact, there)
    assert (there / "src/x.txt").read_text() == "mine"
    with open_artifact(folder) as artifact, pytest.raises(Misuse, match="already a repository"):
        unpack_artifact(artifact, user.top)


def test_files_that_differ_from_the_manifest_are_reported(folder, tmp_path, user):
    other = user.commits({"bench.sh": "echo the best of all\n"})
    better = user.repository.commit(other, {"src/x.txt": "9\n"}, {}, "nine\n")
    write_bundle(user.repository.git, user.repository.head().tree, better.tree, folder / "source.bundle")
    rewrite_sums(folder)
    with open_artifact(folder) as artifact:
        contradictions = unpack_artifact(artifact, tmp_path / "there").contradictions
    assert [line.partition(":")[0] for line in contradictions] == [
        "tree",
        "baseline's tree",
        "tree after change.patch",
    ]


def test_a_patch_that_does_something_else_is_reported(folder, tmp_path):
    (folder / "change.patch").write_bytes((folder / "change.patch").read_bytes().replace(b"+6", b"+7"))
    rewrite_sums(folder)
    with open_artifact(folder) as artifact:
        contradictions = unpack_artifact(artifact, tmp_path / "there").contradictions
    assert [line.partition(":")[0] for line in contradictions] == ["tree after change.patch"]


def test_a_task_file_that_differs_from_the_baselines_is_reported(folder, tmp_path):
    (folder / "loopty.toml").write_bytes(TASK.replace(b"5", b"50"))
    rewrite_sums(folder)
    with open_artifact(folder) as artifact:
        contradictions = unpack_artifact(artifact, tmp_path / "there").contradictions
    assert [line.partition(":")[0] for line in contradictions] == ["loopty.toml"]
    assert (tmp_path / "there/loopty.toml").read_bytes() == TASK


def test_a_hook_of_the_users_template_does_not_run(folder, tmp_path, monkeypatch):
    template = tmp_path / "template/hooks"
    template.mkdir(parents=True)
    (template / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (template / "post-checkout").chmod(0o755)
    (tmp_path / "config").write_text(f"[init]\ntemplateDir = {template.parent}\n[protocol]\nallow = never\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copy(tmp_path / "config", tmp_path / ".gitconfig")
    with open_artifact(folder) as artifact:
        unpack_artifact(artifact, tmp_path / "there")
    assert not (tmp_path / "ran").exists()
