"""A hostile server of PostgreSQL's protocol: what it says is refused in one short line, and nothing has no end."""

import contextlib
import re

import pytest

from loopty.domain.errors import Misuse
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.history import FOLD_VERSION

from ..servers.postgres_talker import REAL, TEXT, WHOLE, error, message, postgres_talker, result

pytest.importorskip("psycopg")
FOUR = (TEXT,) * 4
SOUND = {
    "clock_timestamp.*set_config": result((REAL, *FOUR), (b"1700000000.5", b"", b"", b"", b"")),
    "to_regclass": result((TEXT,), (b"layout",)),
    "FROM layout": result((WHOLE,), (b"1",)),
    "FROM fold": result((WHOLE,), (str(FOLD_VERSION).encode(),)),
    "^BEGIN": message(b"C", b"BEGIN\0"),
    "": result((TEXT,)),
}
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
    ("FROM events WHERE", EVENT),
    ("FROM events WHERE", result(FOUR, (b"x", b"y", b"z", b"\x1b"))),
]


def use(url: str) -> None:
    with contextlib.closing(open_ledger(url)) as ledger:
        ledger.history()
        for number, _ in enumerate(ledger.read()):
            assert number < 5


@pytest.mark.parametrize(("about", "lie"), LIES)
def test_no_answer_of_a_server_is_a_traceback_or_has_no_end(about, lie):
    def answer(query: str) -> bytes:
        return lie if re.search(about, query) else next(SOUND[key] for key in SOUND if re.search(key, query))

    with postgres_talker(answer) as url, pytest.raises(Misuse) as found:
        use(url)
    assert "connection failed" not in str(found.value), "the lie was heard"
    assert len(str(found.value)) < 700
    assert str(found.value).isprintable()
    assert "word" not in str(found.value).replace("password", "")
