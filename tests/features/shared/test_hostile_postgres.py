"""A hostile server of PostgreSQL's protocol: what it says is refused in one short line, and nothing has no end."""

import contextlib
import re
import threading

import pytest

from loopty.domain.errors import Misuse
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.history import FOLD_VERSION
from loopty.record.node_table import NodeRow

from ...servers.postgres_talker import BYTES, CLEARTEXT, REAL, TEXT, WHOLE, error, message, postgres_talker, result

pytest.importorskip("psycopg")
LINE = "loopty.features.shared.postgres_line"
FOUR = (TEXT,) * 4
FOLD = str(FOLD_VERSION).encode()
SOUND = {
    "clock_timestamp.*set_config": result((REAL, *FOUR), (b"1700000000.5", b"", b"", b"", b"")),
    "to_regclass": result((TEXT,), (b"layout",)),
    "FROM layout": result((WHOLE,), (b"2",)),
    "FROM fold": result((WHOLE,), (FOLD,)),
    "coalesce": result((WHOLE,), (b"5",)),
    "^BEGIN": message(b"C", b"BEGIN\0"),
    "": result((TEXT,)),
}
HINTS = [hint.__forward_arg__.split(" ")[0] for hint in NodeRow.__annotations__.values()]
_KINDS = {"int": WHOLE, "float": REAL, "str": TEXT}
ROW = (*(_KINDS[hint] for hint in HINTS), BYTES, BYTES)


def node_row(**changes: bytes) -> bytes:
    """A row of the table of nodes, with some columns changed."""
    sound = {WHOLE: b"1", REAL: b"1.5", TEXT: b"{}"}
    row = {name: sound[kind] for name, kind in zip(NodeRow._fields, ROW, strict=False)}
    values = {**row, "id": b"1", "pool": b"attempt", **changes}.values()
    return result(ROW, (*values, b"\\x00", b"\\x00"))


EVENT = result((WHOLE, REAL, TEXT, TEXT), (b"1", b"1.5", b"painted", b"{}"))
LIES = [
    *(
        ("clock", result((kind, *FOUR), (cell, b"", b"", b"", b"")))
        for kind in (TEXT, REAL)
        for cell in (b"nan", None)
    ),
    ("clock", result((REAL,))),
    ("clock", result((REAL,), (b"\x1b]0;owned\x07",))),
    ("to_regclass", result((TEXT,))),
    ("FROM layout", result((TEXT,), (b"x",))),
    ("FROM layout", result((WHOLE,), (None,))),
    ("FROM fold", result((TEXT,), (b"\x1b]0;owned\x07",))),
    ("FROM fold", result((TEXT,), (b"\xff\xfe",))),
    ("FROM fold", result((WHOLE,))),
    ("FROM fold", error(b"A" * 1_000_000)),
    ("FROM fold", b"\x00\xff junk"),
    ("FROM fold", b"D\x7f\xff\xff\xff"),
    ("FROM fold", error(b"\x1b]0;owned\x07")),
    ("FROM fold", result((WHOLE, WHOLE), (FOLD, FOLD))),
    ("coalesce", result((WHOLE,))),
    ("coalesce", result((WHOLE,), (b"9" * 18,))),
    ("LIMIT 1$", result((WHOLE, TEXT), (b"1", b"sealed"))),
    ("LIMIT 1$", result((WHOLE,), (b"1",))),
    ("LIMIT 1$", result((WHOLE, TEXT), (None, None))),
    ("LIMIT 1 OFFSET", result((WHOLE, TEXT), (b"1", b"digest"))),
    ("handle DESC", node_row(id=b"../../home")),
    ("handle DESC", node_row(pool=b"no pool")),
    ("FROM events WHERE", result((WHOLE, REAL, TEXT), (b"1", b"1.5", b"painted"))),
    ("FROM events WHERE", EVENT),
    ("FROM events WHERE", result(FOUR, (b"x", b"y", b"z", b"\x1b"))),
]


def use(url: str) -> None:
    with contextlib.closing(open_ledger(url)) as ledger:
        ledger.history()
        for number, _ in enumerate(ledger.read()):
            assert number < 5
        ledger.flaw(1, 1)


@pytest.mark.parametrize(("about", "lie"), LIES)
def test_no_answer_of_a_server_is_a_traceback_or_has_no_end(about, lie):
    def answer(query: str) -> bytes:
        return lie if re.search(about, query) else sound(query)

    with postgres_talker(answer) as url, pytest.raises(Misuse) as found:
        use(url)
    assert "connection failed" not in str(found.value), "the lie was heard"
    assert len(str(found.value)) < 700
    assert str(found.value).isprintable()
    assert "word" not in str(found.value).replace("password", "")


def sound(query: str) -> bytes:
    return next(SOUND[key] for key in SOUND if re.search(key, query))


@pytest.mark.parametrize("about", ["clock", "FROM fold"])
def test_a_server_that_falls_silent_after_the_login_is_given_up(about, monkeypatch):
    end = threading.Event()
    for name in ("FIRST_PATIENCE_SECONDS", "_FIRST_ANSWER_SECONDS", "_ANSWER_SECONDS"):
        monkeypatch.setattr(f"{LINE}.{name}", 0.3)
    monkeypatch.setattr(f"{LINE}._Connection.answer_seconds", 0.3)
    monkeypatch.setattr("loopty.features.shared.postgres.PostgresDatabase.__init__.__defaults__", (0.3,))

    def answer(query: str) -> bytes:
        if re.search(about, query):
            end.wait(60)
        return sound(query)

    with postgres_talker(answer) as url, pytest.raises(Misuse, match=r"has not answered for 0\.3 s"):
        use(url)
    end.set()


@pytest.mark.parametrize(
    ("option", "is_sent"), [("", False), ("&sslmode=prefer", False), ("&require_auth=password", True)]
)
def test_a_password_is_not_sent_as_it_is_where_anybody_may_listen(option, is_sent):
    heard: list[str] = []

    def answer(query: str) -> bytes:
        heard.append(query)
        return sound(query)

    with postgres_talker(answer, CLEARTEXT) as url, contextlib.suppress(Misuse):
        use(url.replace("?sslmode=disable", f"?connect_timeout=5{option}"))
        heard.append("no complaint")
    assert [line for line in heard if "word" in line] == (["word\0"] if is_sent else [])
    assert ("no complaint" in heard) is is_sent


def test_the_refusal_of_a_cleartext_password_says_what_to_add_to_the_url():
    with postgres_talker(sound, CLEARTEXT) as url, pytest.raises(Misuse, match=r"nothing was sent\. Add sslmode="):
        use(url)
