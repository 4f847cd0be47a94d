"""Nothing below a safe folder is read, written, renamed or removed through a link or for another user."""

import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopty.kit.safe_folder import SafeFile, SafeFolder, UnsafePath, keep_open


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return SafeFolder(tmp_path / "root")


@pytest.fixture
def mine(tmp_path):
    """A folder of the user's with one file, to which a stranger's links lead."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes").write_text("mine")
    return tmp_path / "mine"


USES = {
    "read": lambda file: file.read(),
    "write": lambda file: file.write(b"theirs"),
    "append": lambda file: file.append(b"theirs"),
    "open": lambda file: os.close(file.open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
    "exists": lambda file: file.exists(),
    "size": lambda file: file.size,
    "remove": lambda file: file.remove(),
    "path": lambda file: file.path_for_programs(),
    "names": lambda file: file.folder.names(),
    "make": lambda file: file.folder.below("new").make(),
    "rename": lambda file: file.folder.rename("notes", "gone"),
    "copy": lambda file: file.folder.copy_into(SafeFolder(file.folder.root).below("copy")),
    "remove all": lambda file: file.folder.below("notes").remove_all(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("link", ["a", "a/b"])
def test_a_link_on_the_way_is_refused_for_every_use(root, mine, use, link):
    path = root.shown_path / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(mine)
    file = root.below(*link.split("/")).file("notes")
    with pytest.raises(UnsafePath, match="is a link or not a directory"):
        USES[use](file)
    assert [(name.name, name.read_text()) for name in mine.iterdir()] == [("notes", "mine")]


@pytest.mark.parametrize("use", ["read", "append", "open", "exists", "size", "path"])
def test_a_link_in_place_of_a_file_is_not_followed(root, mine, use):
    (root.shown_path / "notes").symlink_to(mine / "notes")
    with pytest.raises(UnsafePath, match="is a link"):
        USES[use](root.file("notes"))
    assert (mine / "notes").read_text() == "mine"


@pytest.mark.parametrize("use", ["write", "remove"])
def test_a_link_in_place_of_a_file_is_itself_replaced_or_removed(root, mine, use):
    (root.shown_path / "notes").symlink_to(mine / "notes")
    USES[use](root.file("notes"))
    assert (mine / "notes").read_text() == "mine"
    assert not (root.shown_path / "notes").is_symlink()


def test_a_removed_tree_takes_its_links_along_and_not_what_they_name(root, mine):
    (root.shown_path / "tree/deep").mkdir(parents=True)
    (root.shown_path / "tree/deep/link").symlink_to(mine)
    (root.shown_path / "link").symlink_to(mine)
    root.remove("tree")
    root.remove("link")
    root.remove("never there")
    assert root.names() == []
    assert (mine / "notes").read_text() == "mine"


def test_a_tree_of_any_depth_and_mode_is_removed(root):
    root.below("tree").make()
    folder = os.open(root.shown_path / "tree", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.fchmod(folder, 0)
    os.close(folder)
    root.remove("tree")
    assert root.names() == []


def test_a_file_with_a_second_name_is_not_written_to(root, mine):
    os.link(mine / "notes", root.shown_path / "notes")
    for use in ("append", "open"):
        with pytest.raises(UnsafePath, match="second name"):
            USES[use](root.file("notes"))
    assert (mine / "notes").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another_user_is_refused(root):
    folder = root.below("folder").make()
    folder.file("file").write(b"x")
    os.chown(folder.file("file").shown_path, 4711, 4711)
    with pytest.raises(UnsafePath, match="belongs to another user"):
        folder.file("file").read()
    os.chown(folder.shown_path, 4711, 4711)
    with pytest.raises(UnsafePath, match="belongs to another user"):
        folder.names()
    assert folder.written_by(4711).file("file").read() == b"x", "a trial's own folder belongs to its user"


def test_a_pipe_neither_blocks_nor_is_read(root):
    os.mkfifo(root.shown_path / "pipe")
    for use in ("read", "append", "size"):
        with pytest.raises(UnsafePath):
            USES[use](root.file("pipe"))


@pytest.mark.parametrize("step", ["..", ".", "", "a/b", "/etc", "a\0b"])
def test_a_step_leads_into_the_folder_and_nowhere_else(root, step):
    for use in (root.below, root.file, root.remove):
        with pytest.raises(UnsafePath):
            use(step)


def test_copies_have_content_mode_and_time_and_are_made_once(root):
    source, target = root.below("source").make(), root.below("target")
    source.below("inner").file("log").write(b"text")
    source.file("run").write(b"run")
    (source.shown_path / "run").chmod(0o4755)
    source.copy_into(target)
    assert target.below("inner").file("log").read() == b"text"
    assert stat.S_IMODE((target.shown_path / "run").stat().st_mode) == 0o755
    before = (target.shown_path / "run").stat().st_ctime_ns
    source.copy_into(target)
    assert (target.shown_path / "run").stat().st_ctime_ns == before


def test_a_safe_folder_cannot_be_opened_as_a_path():
    assert not any(hasattr(kind, "__fspath__") for kind in (SafeFolder, SafeFile))


def test_what_is_kept_open_is_reached_from_there(tmp_path):
    kept = SafeFolder(tmp_path, ("state", "nodes"))
    with keep_open(kept, SafeFolder(tmp_path, ("state",))):
        (tmp_path / "state").rename(tmp_path / "moved")
        kept.file("a").write(b"1")
        kept.below("1.1", "traces").file("b").write(b"2")
        assert (tmp_path / "moved/nodes/a").read_bytes() == b"1"
        assert (tmp_path / "moved/nodes/1.1/traces/b").read_bytes() == b"2"
        assert kept.names() == ["1.1", "a"]
        assert kept.names() == ["1.1", "a"], "each has a place of its own in the directory"
        (tmp_path / "moved").rename(tmp_path / "state")
    assert kept.file("a").read() == b"1"


def test_what_was_kept_open_and_removed_is_looked_for_again(tmp_path):
    kept = SafeFolder(tmp_path, ("state", "nodes"))
    with keep_open(kept):
        kept.file("a").write(b"1")
        shutil.rmtree(tmp_path / "state")
        assert kept.names() == []
        assert not kept.file("a").exists()
        kept.file("a").write(b"2")
        assert (tmp_path / "state/nodes/a").read_bytes() == b"2"
        shutil.rmtree(tmp_path / "state")
    assert not kept.exists()


def test_a_link_below_what_is_kept_open_is_refused(tmp_path):
    kept = SafeFolder(tmp_path, ("nodes",))
    (tmp_path / "elsewhere").mkdir()
    with keep_open(kept):
        (tmp_path / "nodes/1.1").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(UnsafePath):
            kept.below("1.1").file("a").write(b"1")


def test_nothing_stays_open_afterwards(tmp_path):
    folder, link = SafeFolder(tmp_path, ("a",)), SafeFolder(tmp_path, ("c",))
    (tmp_path / "c").symlink_to(tmp_path)
    with keep_open(folder), keep_open(folder, SafeFolder(tmp_path, ("b",))):
        folder.below("x").make()
    with pytest.raises(UnsafePath), keep_open(folder, link):
        pass
    opened = (path for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    assert not [path for path in map(os.readlink, opened) if path.startswith(str(tmp_path))]


def test_many_threads_may_use_it_when_it_ends(tmp_path):
    folder = SafeFolder(tmp_path, ("a",))
    for number in range(50):
        with ThreadPoolExecutor(4) as pool:
            with keep_open(folder):
                writes = [pool.submit(folder.below(str(number)).file(str(each)).write, b"1") for each in range(8)]
            for write in writes:
                write.result()
    assert sum(len(folder.below(name).names()) for name in folder.names()) == 400


def test_a_folder_is_absent_only_where_there_is_nothing(root: SafeFolder, mine: Path) -> None:
    assert root.below("a", "b").is_absent()
    root.below("a", "b").make()
    (root.root / "link").symlink_to(mine)
    (root.root / "dangling").symlink_to("nowhere")
    (root.root / "file").touch()
    for name in ("a", "link", "dangling", "file"):
        assert not root.below(name).is_absent()
    assert not root.below("file", "c").is_absent(), "nobody knows"
    assert root.below("a", "c").is_absent()
