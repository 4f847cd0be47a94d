import stat

import pytest

from loopty.domain.errors import Misuse
from loopty.session.trust import TrustStore
from loopty.taskfile.task_requests import TaskRequest

NETWORK = TaskRequest("benchmark.network", "the network")
SECRET = TaskRequest("benchmark.mounts", "to read '/home/a/.ssh'")


@pytest.fixture
def store(tmp_path):
    return TrustStore({"XDG_STATE_HOME": str(tmp_path / "state")})


def test_a_yes_is_for_one_repository_and_its_requests(store, tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    assert not store.is_trusted(here, [NETWORK])
    store.add(here, [NETWORK])
    assert store.is_trusted(here, [NETWORK])
    assert store.is_trusted(here, [])
    assert not store.is_trusted(elsewhere, [NETWORK])
    assert not store.is_trusted(here, [NETWORK, SECRET])


def test_two_permissions_do_not_add_up(store, tmp_path):
    store.add(tmp_path, [NETWORK])
    store.add(tmp_path, [SECRET])
    assert not store.is_trusted(tmp_path, [NETWORK, SECRET])


def test_a_yes_is_readable_for_its_owner_alone_and_can_be_revoked(store, tmp_path):
    store.add(tmp_path, [NETWORK, SECRET])
    (file,) = store.folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert store.is_trusted(tmp_path, [SECRET])
    assert store.remove(tmp_path / "other") == 0
    assert store.remove(tmp_path) == 1
    assert not store.is_trusted(tmp_path, [SECRET])


def test_a_yes_that_was_edited_or_forged_does_not_count(store, tmp_path):
    store.add(tmp_path, [NETWORK])
    (file,) = store.folder.iterdir()
    text = file.read_text()
    file.write_text(text.replace("the network", "everything"))
    assert not store.is_trusted(tmp_path, [TaskRequest("benchmark.network", "everything")])
    file.write_text(text)
    file.chmod(0o622)
    assert not store.is_trusted(tmp_path, [NETWORK])
    file.rename(tmp_path / "moved")
    file.symlink_to(tmp_path / "moved")
    assert not store.is_trusted(tmp_path, [NETWORK])


def test_a_folder_that_others_can_write_to_holds_no_trust(store, tmp_path):
    store.add(tmp_path, [NETWORK])
    store.folder.chmod(0o777)
    assert not store.is_trusted(tmp_path, [NETWORK])
    with pytest.raises(Misuse, match="others can write"):
        store.add(tmp_path, [SECRET])
