"""Text of strangers reaches no terminal raw: every field of a ledger, a task file and a change is poisoned."""

import itertools
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
import unicodedata

import pytest

from loopty.ledgers.open_ledger import open_ledger
from loopty.record.history import decode_event, encode_event
from loopty.record.recorder import Recorder

from .conftest import CODE_TASK
from .serving import evolver, number, vendor

POISON = "\x1b[2J\x1b]0;own\x07\x9b31m\x7f\b\r\u202e\u2066\u200b\u2028\ufeff\U000e0041\ue000"
_STRUCTURE = {
    *(
        "type",
        "node",
        "parent",
        "commit",
        "tree",
        "call",
        "calls",
        "pool",
        "verdict",
        "ending",
        "objection",
        "role",
    ),
    *(
        "subject",
        "incumbent",
        "against",
        "direction",
        "kind",
        "when",
        "fingerprint",
        "integrity",
        "review",
        "unit",
    ),
    *("other", "alongside", "roots", "best"),
}
_OWN = re.compile("\x1b\\[(?:0|1|2|31|32|33|36|1;32)m")
READERS = [
    ("status",),
    ("tree",),
    ("tree", "--all"),
    ("report",),
    ("spend",),
    ("best",),
    ("best", "--top", "3"),
    ("show", "1.1"),
    ("show", "1.1", "--prompt"),
    ("show", "1", "--refused"),
    ("show", "1", "--refused", "--prompt"),
    ("diff", "1.1"),
    ("diff", "1.1", "--baseline"),
    ("gate", "list"),
    ("direct",),
    (
        "model",
        "list",
    ),
    ("trust",),
    ("doctor",),
]


def hidden(text: str) -> set[str]:
    letters = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")}
    return letters - {"\n", "\t"}


def poisoned(data, name=""):
    """The data of an event with poison in every text that is not an id, a digest or one of a few known words."""
    if isinstance(data, dict):
        free_names = name in ("params", "metrics", "machine", "facts", "directions")
        return {key + POISON * free_names: poisoned(value, key) for key, value in data.items()}
    if isinstance(data, list):
        return [poisoned(item, name) for item in data]
    return data + POISON if isinstance(data, str) and name not in _STRUCTURE else data


@pytest.fixture
def hostile(code_place):
    """A repository of a stranger: hostile code, task file and ledger."""
    code_place.write("src/x.txt", "5\n")
    gate = f'[[gates]]\nname = "g{_toml_safe(POISON)}"\ncommand = "true #{_toml_safe(POISON)}"\n'
    with vendor(number("7" + POISON), "nothing " + POISON) as server:
        task = CODE_TASK.format(attempts=2) + evolver(server)
        code_place.write("loopty.toml", task)
        code_place.commit()
        code_place.loopty("optimize", code=None)
    code_place.loopty("direct", "try " + POISON.replace("\x00", ""))
    code_place.write("loopty.toml", task.replace("sh bench.sh", f"sh bench.sh # {'b' * 9}") + gate)
    state = code_place.state_folder
    events = [item.event for item in open_ledger(state.ledger_url).read()]
    for file in code_place.state.glob("ledger.sqlite*"):
        file.unlink()
    recorder = Recorder(open_ledger(state.ledger_url), itertools.count(1_700_000_000).__next__)
    for event in events:
        kind, text = encode_event(event)
        made = decode_event(kind, json.dumps(poisoned(json.loads(text))))
        recorder.record(lambda _, made=made: [made])
    return code_place


def _toml_safe(text: str) -> str:
    return "".join(f"\\U{ord(letter):08x}" if hidden(letter) else letter for letter in text)


def on_terminal(place, args) -> str:
    main, side = pty.openpty()
    command = [sys.executable, "-m", "loopty.cli.main", *args]
    process = subprocess.Popen(
        command, cwd=place.top, stdin=subprocess.DEVNULL, stdout=side, stderr=side, start_new_session=True
    )
    os.close(side)
    output, until = b"", time.monotonic() + 120
    while time.monotonic() < until and select.select([main], [], [], 60)[0]:
        try:
            output += os.read(main, 1 << 16)
        except OSError:
            break
    os.close(main)
    process.wait(10)
    return output.decode().replace("\r\n", "\n")


def test_no_verb_prints_hostile_text_raw(hostile):
    poison_seen = 0
    for args in READERS:
        done = hostile.loopty(*args, code=None)
        assert not hidden(done.stdout + done.stderr), args
        assert done.returncode != 2 or args[0] == "best", done.stderr
        poison_seen += "own" in done.stdout
        done = hostile.loopty(*args, "--json", code=None)
        assert not hidden(done.stdout + done.stderr), args
        for line in done.stdout.splitlines() if args[0] in ("tree", "best") else [done.stdout]:
            json.loads(line or "null")
        poison_seen += "own" in done.stdout
    assert poison_seen > len(READERS)  # the poison was there, visibly


@pytest.mark.parametrize("args", [("diff", "1.1"), ("show", "1.1"), ("tree",), ("report",), ("status",)])
def test_on_a_terminal_only_our_own_colours_are_codes(hostile, args):
    shown = on_terminal(hostile, args)
    assert _OWN.search(shown)
    assert not hidden(_OWN.sub("", shown))


def test_errors_and_warnings_show_hostile_text_visibly(hostile):
    wrong = {
        f'[benchmark]\ncommand = ""\n["{_toml_safe(POISON)}"]\n': ("run", "1"),
        _toml_safe(f'[benchmark]\ncommand="x"\ntimeout_seconds=1\nmounts=["/none{POISON}"]\n'): ("trust",),
        f"not toml {POISON}": ("optimize",),
    }
    for text, args in wrong.items():
        (hostile.top / "loopty.toml").write_text(text)
        done = hostile.loopty(*args, code=None)
        assert done.returncode in (1, 2)
        assert not hidden(done.stdout + done.stderr)
    for args in (("show", "x" + POISON.replace("\x00", "")), (POISON,), ("replay", f"./{POISON}")):
        assert not hidden(hostile.loopty(*args, code=2).stderr)


def test_a_failed_check_quotes_the_candidate_visibly(code_place):
    code_place.write("bench.sh", f"printf 'bad {POISON}' >&2; exit 3\n")
    code_place.commit()
    for args in (("run", "1", "--check"), ("run", "1"), ("optimize", "--new-run")):
        done = code_place.loopty(*args, code=1)
        assert not hidden(done.stdout + done.stderr), args
