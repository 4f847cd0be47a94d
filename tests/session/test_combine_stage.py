"""The second stage takes artifacts only as they were published."""

import hashlib

import pytest

from loopty.domain.errors import Misuse
from loopty.kit.safe_folder import SafeFolder
from loopty.session.combination import read_artifact
from loopty.workspaces.node_folders import NodeFolder

DIGEST = hashlib.sha256(b"published").hexdigest()


def read(tmp_path, content):
    files = {} if content is None else {f"artifacts/{DIGEST}": content}
    return read_artifact(NodeFolder(SafeFolder(tmp_path), files), "@3", DIGEST)


def test_an_artifact_has_the_content_of_its_digest(tmp_path):
    assert read(tmp_path, b"published") == b"published"


@pytest.mark.parametrize(("content", "message"), [(b"other", "was changed by hand"), (None, "is gone")])
def test_one_that_was_changed_or_is_gone_is_refused(tmp_path, content, message):
    with pytest.raises(Misuse, match=f"an artifact of @3 {message}"):
        read(tmp_path, content)
