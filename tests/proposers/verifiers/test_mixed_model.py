"""Several models as one verifier."""

import random

from loopty.domain.ids import NodeId
from loopty.domain.model import JudgedMetric, Message, ModelOption, Prompt, Speaker
from loopty.proposers.verifiers.comparison import MixedModel, compare
from loopty.proposers.verifiers.question import VerifierModel

from .scripted_verifier import MAX_TOKENS, ScriptedVerifier

NODE = NodeId("1.1")
TIE = {"reasoning": "both", "better": "tie"}


def two(reply, share=1.0):
    first, second = ScriptedVerifier(lambda _: reply), ScriptedVerifier(lambda _: reply)
    return MixedModel({ModelOption("first"): first, ModelOption("second", share): second}), first, second


def prompt(text):
    return Prompt("rules", (Message(Speaker.ASKER, text),))


async def test_questions_are_shared_by_weight_and_an_equal_one_has_the_same_model():
    mixed, first, second = two("yes", share=0.25)
    for number in range(200):
        await mixed.ask(prompt(f"change {number}"), "review", NODE)
    assert 20 < len(second.prompts) < 65, "a fifth of them"
    before = len(first.prompts), len(second.prompts)
    for number in range(200):
        await mixed.ask(prompt(f"change {number}").with_reply("?", "again"), "review", NODE)
    assert (len(first.prompts), len(second.prompts)) == (2 * before[0], 2 * before[1])


async def test_all_comparisons_of_a_node_are_made_by_one_model():
    metric = JudgedMetric("taste", "task_a.json", "Which is better?", comparisons=6)
    shares = set()
    for number in range(1, 20):
        mixed, first, second = two(TIE)
        verifier = VerifierModel(mixed, MAX_TOKENS)
        await compare(verifier, metric, "left", "right", NodeId(f"1.{number}"), random.Random(number))
        shares.add((len(first.prompts), len(second.prompts)))
    assert shares == {(6, 0), (0, 6)}
