"""Notices reach a command and a web address; a receiver that fails stops nothing."""

import http.server
import json
import sys
import threading

import pytest

from loopty.domain.errors import Misuse
from loopty.features.notices.notices import Notice, NoticeKind, NoticeSender, NoticeSettings, send_notice
from loopty.features.notices.settings import user_notice_settings

NOTICE = Notice(NoticeKind.NEW_BEST, 1, "new best: node 1.1", "score 2 against 1", "1.1", "repo")


def writer(path) -> tuple[str, ...]:
    """A command that appends what it gets to a file."""
    return sys.executable, "-c", f"import sys; open({str(path)!r}, 'a').write(sys.stdin.read() + '\\n')"


def test_a_command_gets_the_notice_as_json(tmp_path):
    assert send_notice(NoticeSettings(command=writer(tmp_path / "got")), NOTICE) == []
    got = json.loads((tmp_path / "got").read_text())
    assert (got["kind"], got["node"], got["detail"]) == ("new-best", "1.1", "score 2 against 1")


@pytest.fixture
def web():
    """A server that keeps the bodies it gets and answers with a status that a test can change."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    got: list[dict] = []
    status = [200]
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", got, status
        server.shutdown()
        thread.join()


def test_a_web_address_gets_the_notice_as_json(web):
    address, got, _ = web
    assert send_notice(NoticeSettings(webhook=address), NOTICE) == []
    assert got[0]["text"] == "repo: new best: node 1.1\nscore 2 against 1"


def test_a_refusal_of_the_server_is_said(web):
    address, _, status = web
    status[0] = 500
    assert send_notice(NoticeSettings(webhook=address), NOTICE) == [
        "the webhook did not take a notice: the server answered 500"
    ]


def test_only_web_addresses_are_called(tmp_path):
    (tmp_path / "secret").write_text("x")
    (failure,) = send_notice(NoticeSettings(webhook=f"file://{tmp_path}/secret"), NOTICE)
    assert "must begin with https://" in failure


def test_the_sender_keeps_the_order_says_a_failure_once_and_leaves_out_what_is_not_wanted():
    said: list[str] = []
    settings = NoticeSettings(command=("/nowhere/at-all",), on=(NoticeKind.NEW_BEST,))
    sender = NoticeSender(settings, said.append)
    sender.send(NOTICE)
    sender.send(NOTICE)
    sender.send(Notice(NoticeKind.FINISHED, 1, "t", "t"))
    sender.close()
    assert len(said) == 1
    assert "the command did not take a notice" in said[0]
    assert "loopty config notify --test" in said[0]


def config(tmp_path, text: str) -> dict[str, str]:
    (tmp_path / "loopty").mkdir()
    (tmp_path / "loopty/config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_users_config_file_says_where_notices_go(tmp_path):
    environ = config(tmp_path, '[notify]\ndesktop = true\ncommand = ["a", "b"]\non = ["held"]\n')
    assert user_notice_settings(environ) == NoticeSettings(True, "", ("a", "b"), (NoticeKind.HELD,))


def test_without_the_file_notices_go_nowhere(tmp_path):
    assert not user_notice_settings({"XDG_CONFIG_HOME": str(tmp_path)}).has_receiver


def test_a_fault_in_the_table_is_named(tmp_path):
    environ = config(tmp_path, '[notify]\nwebhok = "x"\non = ["never"]\n')
    with pytest.raises(Misuse, match="webhook"):
        user_notice_settings(environ)


HOSTILE = [
    "$(touch owned)`touch owned`;touch owned",
    "a\r\nX-Owned: yes\r\n\r\nPOST /",
    "\ud800",
    "\x1b]0;owned\x07",
    "-rf",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_notice_is_run_or_becomes_a_header(tmp_path, monkeypatch, web, text):
    monkeypatch.chdir(tmp_path)
    address, got, _ = web
    notice = Notice(NoticeKind.HELD, 1, "title", text, text, text)
    assert send_notice(NoticeSettings(webhook=address, command=writer(tmp_path / "got")), notice) == []
    assert got[0]["detail"] == json.loads((tmp_path / "got").read_text())["detail"] == text
    assert [path.name for path in tmp_path.iterdir()] == ["got"]


@pytest.mark.parametrize("title", ["a\0b", "\ud800", "x" * (1 << 20)])
def test_a_title_that_no_program_can_get_is_a_failure_and_no_crash(title):
    notice = Notice(NoticeKind.HELD, 1, title, "text")
    (failure,) = send_notice(NoticeSettings(command=(sys.executable, "-c", "")), notice)
    assert failure.startswith("the command did not take a notice")
