"""Workers join through TLS, with the certificate and the token that the URL names."""

import asyncio
import stat

import pytest

from loopty.domain.errors import Misuse
from loopty.features.fleet.door import WorkerDoor, WorkerUrl, connect, parse_address
from loopty.features.fleet.messages import LinkLost
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder


@pytest.fixture
async def door(tmp_path):
    met = []

    async def admit(link, host):
        met.append(host)
        frame = await link.receive()
        await link.send("echo", frame.block, **frame.fields)
        return ""

    made = WorkerDoor(SafeFolder(tmp_path, ("workers",)), admit)
    yield made
    await made.close()


async def test_a_worker_reaches_the_driver_that_its_url_names(door):
    url = await door.open("127.0.0.1:0")
    assert WorkerUrl.parse(str(url)) == url
    link = await connect(url)
    await link.send("hello", name="a")
    assert (await asyncio.wait_for(link.receive(), 60)).fields == {"name": "a"}
    link.close()


async def test_a_driver_with_another_certificate_is_refused(door):
    url = await door.open("127.0.0.1:0")
    with pytest.raises(Misuse, match="another certificate"):
        await connect(replace(url, certificate="0" * 64))


async def test_a_restarted_driver_is_found_under_the_same_url(door, tmp_path):
    url = await door.open("127.0.0.1:0")
    await door.close()
    again = WorkerDoor(SafeFolder(tmp_path, ("workers",)), door._admit)
    assert await again.open("127.0.0.1:0") == url
    await again.close()


async def test_nobody_else_can_read_the_secrets(door, tmp_path):
    url = await door.open("127.0.0.1:0")
    for name in ("token", "key.pem"):
        assert stat.S_IMODE((tmp_path / "workers" / name).stat().st_mode) == 0o600
    assert url.token not in repr(url)


async def test_what_does_not_speak_tls_gets_no_answer(door):
    url = await door.open("127.0.0.1:0")
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"\0\0\0\x02\0\0\0\0{}")
    with pytest.raises((ConnectionError, LinkLost, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(64), 60)
    writer.close()


@pytest.mark.parametrize("text", ["", "http://a@b:1/", "loopty://host:1/", "loopty://t@h:99999/?certificate=00"])
def test_a_wrong_url_is_told_from_a_right_one(text):
    with pytest.raises(Misuse, match="copy the whole line"):
        WorkerUrl.parse(text)


def test_an_address_may_leave_out_the_port():
    assert parse_address("0.0.0.0:7700") == ("0.0.0.0", 7700)
    assert parse_address("[::1]") == ("::1", 0)
    with pytest.raises(Misuse, match="cannot listen"):
        parse_address("a/b:x")
