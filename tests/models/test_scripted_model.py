"""Models that cost nothing: from a script, and from a recording."""

import asyncio

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelFault, Outage, Prompt, Reply, Speaker, Usage
from loopty.models.archive import RecordedModel, make_recorded_model
from loopty.models.scripted_model import ScriptedModel, make_scripted_model

from .spending import PaidRun


def prompt(text, **options):
    return Prompt("terse", (Message(Speaker.ASKER, text),), **options)


async def test_replies_come_in_order_until_the_script_is_used_up():
    model = ScriptedModel(["one", Reply("two", Usage(1, 2))], Usage(5, 5))
    assert await model.reply(prompt("a")) == Reply("one", Usage(5, 5))
    assert await model.reply(prompt("b")) == Reply("two", Usage(1, 2))
    with pytest.raises(ModelFault, match="the script is used up: it has 2 replies") as caught:
        await model.reply(prompt("c"))
    assert not caught.value.transient
    assert [sent.messages[0].text for sent in model.prompts] == ["a", "b", "c"]


async def test_a_function_answers_the_prompt_and_usage_is_estimated():
    model = ScriptedModel(lambda sent: sent.messages[0].text.upper())
    assert await model.reply(prompt("what")) == Reply("WHAT", Usage(3, 1))


async def test_a_script_is_a_file_of_lines(tmp_path):
    file = tmp_path / "replies.jsonl"
    file.write_text(
        '{"text": "one"}\n\n'
        '{"text": "two", "usage": {"input_tokens": 3, "output_tokens": 4}, "whole": false}\n'
        '{"fault": "429: slow", "transient": true, "retry_after_seconds": 7, "usage": {"input_tokens": 1}}\n'
        '{"fault": "400: no"}\n'
    )
    model = make_scripted_model("fake", file)
    assert model.name == "scripted:replies"
    assert (await model.reply(prompt("?"))).text == "one"
    assert await model.reply(prompt("?")) == Reply("two", Usage(3, 4), whole=False)
    with pytest.raises(ModelFault, match="429: slow") as slow:
        await model.reply(prompt("?"))
    assert (slow.value.transient, slow.value.retry_after_seconds, slow.value.usage) == (True, 7, Usage(1))
    with pytest.raises(ModelFault) as refused:
        await model.reply(prompt("?"))
    assert not refused.value.transient


@pytest.mark.parametrize(
    "line",
    ["text", "[]", "{}", '{"text": "a", "usage": 3}', '"text"', '{"text": "a", "usage": {"input_tokens": true}}'],
)
def test_a_malformed_line_is_named(tmp_path, line):
    (tmp_path / "s").write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(Misuse, match=r"s:2 is not a line of a script"):
        make_scripted_model("fake", tmp_path / "s")


async def test_a_line_may_say_how_long_the_model_takes(tmp_path):
    file = tmp_path / "script.jsonl"
    file.write_text('{"text": "slow", "seconds": 0.01}\n{"text": "fast"}\n')
    model = make_scripted_model("m", file)
    slow = asyncio.ensure_future(model.reply(Prompt("", ())))
    await asyncio.sleep(0)
    fast = await model.reply(Prompt("", ()))
    assert not slow.done()
    assert [(await slow).text, fast.text] == ["slow", "fast"]


def test_missing_files_are_named(tmp_path):
    with pytest.raises(Misuse, match="there is no script at"):
        make_scripted_model("fake", tmp_path / "none")
    with pytest.raises(Misuse, match="there is no folder"):
        make_recorded_model("old", tmp_path / "none")


async def test_recorded_replies_are_repeated_word_for_word(tmp_path):
    paid_run = PaidRun(tmp_path)
    replies = [
        Reply("one", Usage(9, 2, 1, 1)),
        ModelFault("503", transient=True),
        Reply("two", Usage(8, 8), whole=False),
    ]
    role_model = paid_run.role_model(ScriptedModel(replies))
    first, second = await role_model.ask(prompt("a"), "guess"), await role_model.ask(prompt("b"), "guess")
    again = RecordedModel(tmp_path / "calls")
    assert await again.reply(prompt("b", max_output_tokens=700)) == second.reply, "whatever budget remains"
    assert await again.reply(prompt("a")) == first.reply


async def test_a_prompt_sent_twice_gets_its_replies_in_order(tmp_path):
    paid_run = PaidRun(tmp_path)
    role_model = paid_run.role_model(ScriptedModel(["one", "two"]))
    for _ in range(2):
        await role_model.ask(prompt("a"), "guess")
    again = RecordedModel(tmp_path / "calls")
    assert [(await again.reply(prompt("a"))).text for _ in range(3)] == ["one", "two", "two"]


async def test_a_prompt_of_another_run_gets_the_reply_to_the_matching_prompt(tmp_path):
    paid_run = PaidRun(tmp_path)
    role_model = paid_run.role_model(ScriptedModel(["one", "two", "three"]))
    briefing = '<data-0a1b2c3d of="it">\n1.2 | score 5 | after 0.0078 s\n</data-0a1b2c3d>'
    for text in (briefing, f"{briefing}\n1.3", briefing.replace("5", "7")):
        await role_model.ask(prompt(text), "guess")
    again = RecordedModel(tmp_path / "calls")
    other = '<data-99999999 of="it">\n2.2 | score 5 | after 1e-05 s\n</data-99999999>'
    assert [(await again.reply(prompt(text))).text for text in (f"{other}\n2.3", other, other)] == [
        "two",
        "one",
        "three",
    ]


async def test_a_prompt_that_was_never_recorded_is_reported_with_the_remedy(tmp_path):
    paid_run = PaidRun(tmp_path)
    (tmp_path / "calls").mkdir()
    with pytest.raises(
        Outage, match=r"this prompt is not among the calls recorded in .*: its contents have changed"
    ):
        await paid_run.role_model(make_recorded_model("old", tmp_path / "calls")).ask(prompt("new"), "guess")
