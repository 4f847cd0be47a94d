"""JSON for a web address whose server is hostile: one line says what went wrong, and nothing goes elsewhere."""

import time

import pytest

from loopty.kit.web_post import post_json

from ..servers.raw_server import raw_server


@pytest.mark.parametrize(
    "answer",
    [
        b"\x1b]0;owned\x07 no HTTP\r\n\r\n",
        b"HTTP/1.1 999999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"",
    ],
)
def test_garbage_is_a_fault_in_one_line_without_the_servers_words(answer):
    with (
        raw_server(answer) as (port, _),
        pytest.raises(OSError, match=r"HTTP|redirects|answered|closed|reset") as found,
    ):
        post_json(f"http://127.0.0.1:{port}/secret", b"{}", 5.0)
    assert str(found.value).isprintable()
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("status", [b"301", b"302", b"303", b"307", b"308"])
def test_a_redirect_is_a_refusal_and_reaches_nobody_else(status):
    with raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as (other, got):
        answer = b"HTTP/1.1 %s Go\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % (status, other)
        with raw_server(answer) as (port, _), pytest.raises(OSError, match=f"answered {status.decode()}"):
            post_json(f"http://127.0.0.1:{port}/", b"{}", 5.0)
    assert got == []


def test_a_server_that_never_comes_to_an_end_holds_up_nobody():
    start = time.monotonic()
    with raw_server(b"HTTP/1.1 100 Continue\r\n\r\n", 0.01) as (port, _), pytest.raises(OSError, match="within"):
        post_json(f"http://127.0.0.1:{port}/", b"{}", 0.3)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("address", ["http://[", "http://a b/", "http://word:x/", "nothing"])
def test_what_is_no_address_is_said_without_what_it_holds(address):
    with pytest.raises(OSError, match="its address") as found:
        post_json(address, b"{}", 5.0)
    assert "word" not in str(found.value)
