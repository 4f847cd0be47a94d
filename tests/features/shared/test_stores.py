"""The shared stores: conformance, a real server of S3's protocol, and what goes wrong with each."""

import os
import signal
import subprocess
import sys
import time

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.shared_store import StoreFault
from loopty.features.shared.directory_store import DirectoryStore
from loopty.features.shared.s3_store import S3Address, S3Keys, S3Store, find_keys, signed_headers
from loopty.session.places import open_store
from loopty.testing.store_suite import StoreConformance

from ...servers.raw_server import raw_server


class TestDirectoryStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        store = DirectoryStore(tmp_path / "store")
        store.prepare()
        return store


class TestS3Store(StoreConformance):
    @pytest.fixture
    def store(self, s3_store):
        return s3_store


@pytest.fixture
def s3_store(s3, monkeypatch, request):
    for name, value in s3.keys.items():
        monkeypatch.setenv(name, value)
    store = open_store(s3.url.replace("campaign", f"test-{abs(hash(request.node.name))}"))
    store.prepare()
    return store


def test_a_mount_point_without_its_file_system_is_refused(tmp_path):
    (tmp_path / "store").mkdir()
    store = DirectoryStore(tmp_path / "store")
    for use in (lambda: store.put("a", b"-"), lambda: store.get("a", 9), lambda: list(store.entries("a/"))):
        with pytest.raises(StoreFault, match="not mounted"):
            use()


def test_no_link_in_a_directory_is_followed(tmp_path):
    store, outside = DirectoryStore(tmp_path / "store"), tmp_path / "outside"
    store.prepare()
    outside.mkdir()
    (outside / "file").write_bytes(b"mine")
    (tmp_path / "store/nodes").symlink_to(outside)
    (tmp_path / "store/link").symlink_to(outside / "file")
    os.mkfifo(tmp_path / "store/pipe")
    with pytest.raises(StoreFault):
        store.put("nodes/file", b"theirs")
    with pytest.raises(StoreFault):
        store.remove("nodes/file")
    for name in ("link", "pipe"):
        with pytest.raises(StoreFault):
            store.get(name, 100)
    assert (outside / "file").read_bytes() == b"mine"


def test_a_directory_as_deep_as_its_file_system_allows_is_listed(tmp_path):
    store = DirectoryStore(tmp_path / "store")
    store.prepare()
    store.put("nodes/a/1", b"-")
    top = os.open(tmp_path / "store/nodes", os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("d", dir_fd=top)
        below = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(top)
    try:
        assert [entry.name for entry in store.entries("nodes/")] == ["nodes/a/1"]
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "store"], check=True)  # too deep for Python's own


def test_a_full_or_read_only_directory_says_what_to_do(tmp_path, monkeypatch):
    store = DirectoryStore(tmp_path / "store")
    store.prepare()
    (tmp_path / "store/nodes").write_bytes(b"a file where a folder should be")
    with pytest.raises(StoreFault, match="cannot be used"):
        store.put("nodes/a", b"-")
    for number, remedy in ((28, "free some space"), (30, "so that it can be written"), (13, "permissions")):

        def refuse(*_args, number=number, **_options):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("loopty.features.shared.directory_store.write_atomically", refuse)
        with pytest.raises(StoreFault, match=remedy):
            store.put("commits/a", b"-")


WRITER = """
import sys
from pathlib import Path
from loopty.features.shared.directory_store import DirectoryStore
store = DirectoryStore(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    for number in range(100):
        store.put(f"nodes/a/{number}", bytes([number]) * 300_000)
"""


def test_a_kill_at_any_instant_leaves_whole_contents(tmp_path):
    store = DirectoryStore(tmp_path / "store")
    store.prepare()
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "store")], stdout=subprocess.PIPE
        ) as child:
            child.stdout.readline()
            while not list(store.entries("nodes/")):
                assert child.poll() is None
            child.send_signal(signal.SIGKILL)
    found = list(store.entries("nodes/"))
    assert found
    for entry in found:
        number = int(entry.name.rpartition("/")[2])
        assert store.get(entry.name, 1 << 20) == bytes([number]) * 300_000


def test_a_listing_goes_on_page_by_page(s3_store):
    pages = {
        "": "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>"
        "<Contents><Key>{0}nodes/a/1</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>",
        "a&b": "<Contents><Key>{0}nodes/../../etc</Key></Contents><Contents><Key>elsewhere/2</Key></Contents>"
        "<Contents><Key>{0}nodes/a/2</Key><LastModified>nonsense</LastModified></Contents>",
    }
    prefix = s3_store._address.prefix

    def answer(_method, _name, query):
        from loopty.features.shared.s3_store import _Answer

        return _Answer(200, pages[query.get("continuation-token", "")].format(prefix).encode())

    s3_store._ask = answer
    assert [entry.name for entry in s3_store.entries("nodes/")] == ["nodes/a/1", "nodes/a/2"]
    assert next(s3_store.entries("nodes/")).changed_at == 1767323045.0


def store_at(port: int) -> S3Store:
    return S3Store(
        S3Address.parse(f"s3://bucket/x?endpoint=http://127.0.0.1:{port}", {}), lambda: S3Keys("a", "b")
    )


def ok(content: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(content), content)


TOKEN = b"<NextContinuationToken>%s</NextContinuationToken>"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\nabc"


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b]0;owned\x07 no HTTP\r\n\r\n",
        CHUNKED % b"-5",
        CHUNKED % b"fffffffffffffffff",
        ok(b"x" * (17 << 20)),
        ok(b"<Code>" + b"A\x1b" * 100_000 + b"</Code>", b"500 No"),
        ok(b"", b"307 Go\r\nLocation: http://127.0.0.1:1/"),
        ok(TOKEN % b"again"),
    ],
)
def test_a_hostile_server_gets_a_fault_in_one_line(answer, monkeypatch):
    monkeypatch.setattr("loopty.features.shared.s3_store._MOST_NAMES", 20_000)
    with raw_server(answer) as (port, _), pytest.raises(StoreFault) as found:
        list(store_at(port).entries("nodes/"))
    assert str(found.value).isprintable()
    assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    "content",
    [
        b"<Contents>" * 300_000,
        b"<Contents><Key>" * 200_000,
        TOKEN % (b"&#" + b"9" * 5_000 + b";"),
        b'<!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><Contents><Key>&b;</Key></Contents>',
    ],
)
def test_a_listing_that_is_made_to_cost_much_costs_little(content):
    start = time.monotonic()
    with raw_server(ok(content)) as (port, _):
        assert list(store_at(port).entries("nodes/")) == []
    assert time.monotonic() - start < 5


def test_a_server_that_never_comes_to_an_end_holds_up_nobody(monkeypatch):
    monkeypatch.setattr("loopty.features.shared.s3_store._TIMEOUT_SECONDS", 0.2)
    monkeypatch.setattr("loopty.features.shared.s3_store._SLOWEST_BYTES", 1 << 40)
    with (
        raw_server(b"HTTP/1.1 100 Continue\r\n\r\n", 0.01) as (port, _),
        pytest.raises(StoreFault, match="reached"),
    ):
        store_at(port).get("commits/a", 10)


def test_wrong_keys_and_a_missing_bucket_are_named(s3, monkeypatch):
    address = S3Address.parse(s3.url, {})
    wrong = S3Store(address, lambda: S3Keys("tester", "not the secret"))
    with pytest.raises(StoreFault, match="AWS_SECRET_ACCESS_KEY"):
        wrong.put("a", b"-")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.keys["AWS_ACCESS_KEY_ID"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.keys["AWS_SECRET_ACCESS_KEY"])
    with pytest.raises(StoreFault, match="make the bucket"):
        open_store(s3.url.replace("bucket", "another")).put("a", b"-")


def test_a_server_that_is_restarted_is_found_again(s3, s3_store):
    s3_store.put("commits/a", b"-")
    s3.stop()
    try:
        with pytest.raises(StoreFault, match="cannot be reached"):
            s3_store.get("commits/a", 10)
    finally:
        s3.start()
    assert s3_store.get("commits/a", 10) == b"-"


def test_signatures_are_those_of_the_published_example():
    keys = S3Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    query = {"max-keys": "2", "prefix": "J"}
    host = "examplebucket.s3.amazonaws.com"
    headers = signed_headers("GET", host, "/", query, b"", keys, "us-east-1", 1369353600.0)
    expected = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    assert headers["authorization"].endswith(f"Signature={expected}")
    assert "session" not in str(headers)


@pytest.mark.parametrize(
    ("url", "host", "path", "prefix"),
    [
        ("s3://data/a/b", "data.s3.eu-west-1.amazonaws.com", "/", "a/b/"),
        ("s3://data", "data.s3.eu-west-1.amazonaws.com", "/", ""),
        ("s3://data/a?endpoint=https://minio.example:9000", "minio.example:9000", "/data/", "a/"),
    ],
)
def test_an_address_names_server_bucket_and_prefix(url, host, path, prefix):
    address = S3Address.parse(url, {"AWS_REGION": "eu-west-1"})
    assert (address.host, address.path, address.prefix) == (host, path, prefix)


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3://B_A_D/x", "s3://data/../x?y=1", "s3://data?endpoint=ftp://x", "relative/path", "http://x/y"],
)
def test_what_is_no_store_is_refused(url):
    with pytest.raises(Misuse, match=r"names no store|is no endpoint"):
        open_store(url)


def test_nothing_leaves_the_machine_unencrypted():
    with pytest.raises(Misuse, match="use https"):
        open_store("s3://data/x?endpoint=http://store.example")


def test_keys_come_from_the_environment_or_the_users_file(tmp_path):
    with pytest.raises(StoreFault, match="AWS_ACCESS_KEY_ID"):
        find_keys({}, tmp_path)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text("[work]\naws_access_key_id = a\naws_secret_access_key = b%c\n")
    assert find_keys({"AWS_PROFILE": "work"}, tmp_path) == S3Keys("a", "b%c")
    assert find_keys({"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}, tmp_path).access == "x"
    assert "b%c" not in repr(find_keys({"AWS_PROFILE": "work"}, tmp_path))
