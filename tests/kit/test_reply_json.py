import pytest

from loopty.kit.model_text import parse_longest, parse_only_object


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2]}',
        'Here it is:\n```json\n{"a": [1, 2]}\n```\nI hope that {this} helps [1].',
        '```\n{"a": [1, 2,],}\n```',
        '<think>perhaps {"a": [1, 2, 3, 4]}?</think>\n{"a": [1, 2]}',
        'It\'s "quoted: {"a": [1, 2]}',
        '[ ] {"a":\n\t[1,\n2]} {}',
    ],
)
def test_json_is_found_inside_other_text(text: str) -> None:
    assert parse_longest(text) == {"a": [1, 2]}


def test_a_list_is_found_as_well() -> None:
    assert parse_longest('So: [{"a": 1}]') == [{"a": 1}]


def test_brackets_commas_and_line_breaks_in_strings_are_kept() -> None:
    assert parse_longest('{"a": "x, ]}\\" {\n"}') == {"a": 'x, ]}" {\n'}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JSON"),
        ("I cannot help with that.", "no JSON"),
        ("use {x} and [y]", "cannot be read"),
        ("{'a': 1}", "cannot be read"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "1e999"),
        ('{"a": ' + "9" * 10_000 + "}", "cannot be read"),
        ('{"a": 1, "a": 2}', "'a' occurs twice"),
        ('{"list": [{"a": 1}, {"a": ', "cut off"),
        ('{"a": "no end', "cut off"),
        ("[" * 100_000, "nested"),
        ('{"a":' * 100_000, "nested"),
        ('{"a": "' + 'x"' * 2_000_000, "characters"),
    ],
)
def test_broken_or_ambiguous_json_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_longest(text)


@pytest.mark.parametrize(
    "text",
    [
        "{ } [" * 300_000,
        '\\"' * 900_000 + "{",
        '{"a": "' + '\\"' * 900_000,
        "<think>" * 280_000,
        "{" + "," * 1_000_000 + " " * 900_000,
        "[{" * 30 + "{}" * 900_000,
    ],
)
def test_no_reply_takes_long_to_read(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_longest(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        'So {this} it is [1]:\n```json\n{"a": 1,}\n```',
        '<think>{"a": 2}</think> {"a": 1}',
    ],
)
def test_the_only_object_may_have_prose_around_it(text: str) -> None:
    assert parse_only_object(text) == {"a": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('It says {"a": 1, "b": 2}. {"a": 3}', "holds 2 JSON objects"),
        ('{"a": 3} it says {"a": "}', "cut off"),
        ('{"a": 3, "a": 1} {"b": 1}', "holds 2 JSON objects"),
        ('{"a" 3}', "cannot be read"),
        ('[{"a": 3}]', "not an object"),
        ("nothing", "holds no JSON objects"),
    ],
)
def test_a_possible_quotation_is_not_taken_for_the_only_object(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_only_object(text)
