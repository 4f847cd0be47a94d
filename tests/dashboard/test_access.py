"""Who is let in: the token, the cookie, the name of the host, the origin, the header against forged requests."""

import pytest

from loopty.dashboard.dashboard_launch import DashboardOptions
from loopty.dashboard.page_access import Address, NotAllowed, PageAccess
from loopty.dashboard.static_files import StaticFiles
from loopty.domain.errors import Misuse

from .conftest import serve


async def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_gets(story):
    async with serve(story.top) as client:
        reply = await client.get(f"/?token={client.server.access.token}")
        assert (reply.status, reply.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict; Path=/" in reply.headers["set-cookie"]
        assert client.server.access.token not in reply.headers["set-cookie"]
        client.cookie = ""
        refused = await client.get("/api/overview")
        assert (refused.status, refused.data["code"]) == (401, "login")
        assert (await client.get("/?token=wrong")).status == 403


def test_many_wrong_tokens_are_not_compared_any_more():
    now = [0.0]
    access = PageAccess(Address("127.0.0.1", 80), lambda: now[0])
    for _ in range(20):
        with pytest.raises(NotAllowed, match="wrong"):
            access.check_token("guess")
    with pytest.raises(NotAllowed, match="wait"):
        access.check_token(access.token)
    now[0] = 61.0
    access.check_token(access.token)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
async def test_a_name_that_was_rebound_to_us_is_refused(story, host):
    async with serve(story.top) as client:
        for path in ("/", "/api/session"):
            reply = await client.get(path, host=host or "x")
            assert (reply.status, reply.data["code"]) == (403, "host")


async def test_another_site_gets_nothing(story):
    async with serve(story.top) as client:
        assert (await client.get("/api/overview", origin="http://evil.example")).status == 403
        assert (await client.get("/api/overview", sec_fetch_site="cross-site")).status == 403
        assert (await client.get("/api/overview", origin=client.origin)).status == 200


async def test_an_action_needs_origin_header_and_json(story):
    async with serve(story.top) as client:
        good = {
            "origin": client.origin,
            "x_loopty_csrf": client.server.access.csrf,
            "content_type": "application/json",
        }
        for name, value in (
            ("origin", ""),
            ("origin", "null"),
            ("x_loopty_csrf", ""),
            ("x_loopty_csrf", "guess"),
            ("content_type", "text/plain"),
        ):
            reply = await client.send("POST", "/api/actions/pause", b"{}", **{**good, name: value})
            assert (reply.status, reply.data["code"]) == (403, "csrf")
        assert (await client.send("POST", "/api/actions/pause", b"{}", **good)).status == 200


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
