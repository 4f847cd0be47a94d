"""Who is let in: the token, the name of the host, the origin."""

import asyncio

import pytest

from loopty.domain.errors import Misuse
from loopty.web.launch import DashboardOptions
from loopty.web.server import StaticFiles

from .conftest import serve


@pytest.mark.parametrize("token", ["", "guess", "ü"])
async def test_without_the_token_nothing_is_told_and_nothing_done(story, token):
    async with serve(story.top) as client:
        client.token = token
        for method, path in (("GET", "/api/overview"), ("GET", "/api/events"), ("POST", "/api/actions/pause")):
            refused = await client.send(method, path, b"{}")
            assert (refused.status, refused.data["code"]) == (401, "login")


async def test_no_browser_carries_the_secret_to_another_port(story):
    async with serve(story.top) as client:
        token = client.server.access.token
        for path in ("/", "/tree", f"/?token={token}", "/api/session"):
            reply = await client.get(path)
            assert "set-cookie" not in reply.headers
            assert token.encode() not in reply.body
        client.token = ""
        assert (await client.get("/api/overview", cookie=f"loopty-{client.port}={token}")).status == 401


async def test_idle_connections_and_wrong_tokens_of_others_do_not_lock_the_owner_out(story):
    async with serve(story.top) as client:
        strangers = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(450)]
        token = client.token
        client.token = "wrong"
        for _ in range(30):
            assert (await client.get("/api/session")).status == 401
        client.token = token
        reader, writer = await client.open("GET", "/api/events")
        assert b"200" in await reader.readline()
        more = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(150)]
        assert (await client.get("/api/session")).status == 200
        await reader.readuntil(b"event: overview")  # the owner's own stream has not been given up for them
        for _, each in (*strangers, *more, (reader, writer)):
            each.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
async def test_a_name_that_was_rebound_to_us_is_refused(story, host):
    async with serve(story.top) as client:
        for path in ("/", "/api/session"):
            reply = await client.get(path, host=host or "x")
            assert (reply.status, reply.data["code"]) == (403, "host")


async def test_another_site_gets_nothing(story):
    async with serve(story.top) as client:
        assert (await client.get("/api/overview", origin="http://evil.example")).status == 403
        assert (await client.get("/api/overview", origin=client.origin)).status == 200


async def test_an_action_that_another_site_asks_for_is_refused(story):
    async with serve(story.top) as client:
        for origin in ("null", "http://evil.example", f"http://127.0.0.1:{client.port + 1}"):
            reply = await client.send("POST", "/api/actions/pause", b"{}", origin=origin)
            assert (reply.status, reply.data["code"]) == (403, "origin")
        assert (await client.send("POST", "/api/actions/pause", b"{}", origin=client.origin)).status == 200


async def test_every_answer_forbids_scripts_frames_and_guesses_of_types(story):
    async with serve(story.top) as client:
        for path in ("/", "/api/session", "/api/nothing", "/tree"):
            reply = await client.get(path)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["referrer-policy"] == "no-referrer"


async def test_no_path_leads_out_of_the_page(story, tmp_path):
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<title>page</title>")
    (page / "assets" / "app-0123abcd.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    async with serve(story.top, StaticFiles(page)) as client:
        for path in (
            "/../secret.txt",
            "/%2e%2e/secret.txt",
            "/assets/../../secret.txt",
            "//etc/passwd.x",
            "/..%2fsecret.txt",
        ):
            reply = await client.get(path)
            assert reply.status == 404, path
            assert b"secret" not in reply.body.replace(b"secret.txt", b"")
        assert (await client.get("/node/1.2")).status == 404
        assert b"page" in (await client.get("/tree")).body
        asset = await client.get("/assets/app-0123abcd.js")
        assert "immutable" in asset.headers["cache-control"]
        for name in ("../../ledger.sqlite", "..%2f..%2fx", "/etc/passwd", "a/b/c", "%00"):
            reply = await client.get(f"/api/node/1.1/log?name={name}")
            assert (reply.status, reply.data["code"]) == (400, "misuse")


async def test_where_the_page_is_not_built_its_address_says_so_in_words(story, tmp_path):
    page = tmp_path / "page"
    async with serve(story.top, StaticFiles(page)) as client:
        for path in ("/", "/tree"):
            reply = await client.get(path)
            assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
            assert b"page is not built: run <code>make page</code> in the clone of loopty" in reply.body
        assert (await client.get("/main-0123abcd.js")).status == 404
        page.mkdir()
        (page / "index.html").write_text("<title>built</title>")
        assert b"built</title>" in (await client.get("/")).body


async def test_a_large_body_and_nonsense_are_refused(story):
    async with serve(story.top) as client:
        reply = await client.send("POST", "/api/actions/direct", b"x" * 70_000)
        assert (reply.status, reply.data["code"]) == (413, "too-large")
        assert (await client.send("PUT", "/api/overview")).status == 405
        assert (await client.send("BAD REQUEST", "/")).status == 400


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (DashboardOptions("0.0.0.0"), "in the clear"),
        (DashboardOptions("10.0.0.1", certificate=None, key=None), "--behind-proxy"),
        (DashboardOptions(key="k"), "needs both"),
    ],
)
def test_an_address_for_others_needs_encryption(options, words):
    with pytest.raises(Misuse, match=words):
        options.check()
    DashboardOptions("0.0.0.0", behind_proxy=True).check()
    DashboardOptions("::1").check()
