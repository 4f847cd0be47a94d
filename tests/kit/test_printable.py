import json
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loopty.kit.foreign_text import escape_hidden, escape_hidden_json

HOSTILE = "\x00\x07\b\r\x1b[2J\x7f\x9b31m\u200b\u202e\u2066\u2028\ufeff\ud800\ue000\U000e0041"


def hidden(text):
    return {letter for letter in text if unicodedata.category(letter)[0] == "C" or letter in "\u2028\u2029"} - {
        *"\n\t"
    }


def test_hidden_characters_become_visible_and_the_rest_stays():
    assert escape_hidden("a\x1b[2J\u202eb\tc\n") == "a\\x1b[2J\\u202eb\tc\n"
    assert escape_hidden("naïve → 長 👍") == "naïve → 長 👍"
    assert not hidden(escape_hidden(HOSTILE))


@given(st.text() | st.text(st.sampled_from(HOSTILE)))
def test_json_keeps_its_value_and_shows_nothing_hidden(text):
    for ascii_only in (False, True):
        shown = escape_hidden_json(json.dumps({text: [text]}, ensure_ascii=ascii_only))
        assert json.loads(shown) == {text: [text]}
        assert not {letter for letter in hidden(shown) if unicodedata.category(letter) != "Cn"}


def test_no_hidden_character_is_taken_for_a_visible_one():
    kinds = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    letters = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in kinds]
    shown = {letter for letter in letters if escape_hidden(letter) == letter}
    assert shown == {"\n", "\t"}
    assert escape_hidden("├─ 1.2 ★ 0.5 → 0.9\n\t●") == "├─ 1.2 ★ 0.5 → 0.9\n\t●"
