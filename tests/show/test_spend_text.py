"""What models cost, as text."""

from __future__ import annotations

import re

import pytest

from loopty.show.spend import SpendCap, SpendReport, SpendRow, SpendSum, spend_text
from loopty.show.terminal import Terminal, safe_text, width

BIG = SpendSum(20, 120_000, 100_000, 20_000, 12_000, 4_000, 1.6)
SMALL = SpendSum(6, 23_000, 20_000, 3_000, 0, 0, 0.0, 6)
ALL = SpendSum(26, 143_000, 120_000, 23_000, 12_000, 4_000, 1.6, 6)
SPEND = SpendReport(
    1,
    ALL,
    (SpendRow("evolver", BIG), SpendRow("user", SMALL)),
    (SpendRow("openai:gpt-9", BIG), SpendRow("acme:small", SMALL)),
    (SpendRow("rewrite", BIG), SpendRow("benchmark", SMALL)),
    (SpendRow("1.1", BIG), SpendRow("", SMALL)),
    SpendSum(1, 4000, money_usd=0.05),
    (SpendRow("refused: apply", SpendSum(2, 9000, 8000, 1000, 0, 0, 0.09)),),
    3,
    12,
    2,
    (SpendCap("run", 1_000_000, 5.0), SpendCap("user", 50_000, None)),
)

TEXT = """
run 1  26 calls, 143,000 tokens, over $1.60

  role     calls    input  cached  output  reasoning   tokens    money
  evolver     20  100,000  12,000  20,000      4,000  120,000    $1.60
  user         6   20,000       0   3,000          0   23,000  unknown

  model         calls    input  cached  output  reasoning   tokens    money
  openai:gpt-9     20  100,000  12,000  20,000      4,000  120,000    $1.60
  acme:small        6   20,000       0   3,000          0   23,000  unknown

  operator   calls    input  cached  output  reasoning   tokens    money
  rewrite       20  100,000  12,000  20,000      4,000  120,000    $1.60
  benchmark      6   20,000       0   3,000          0   23,000  unknown

  no result       calls  input  output  tokens    money
  refused: apply      2  8,000   1,000   9,000  $0.0900

  in flight 1 call, 4,000 tokens, $0.0500 reserved
  untaken   3 proposals waiting in replies that were partly used
  cached    12 requests answered from memory, at no cost
  price     unknown for acme:small: only tokens are counted; set input_usd and
            output_usd
  limit     run: 143,000 of 1,000,000 tokens, over $1.60 of $5.00
  limit     user: 23,000 of 50,000 tokens
  per kept  2 kept nodes: 71,500 tokens and over $0.80 each, all calls counted
"""
NOTHING = SpendReport(3, SpendSum(), (), (), (), (), SpendSum(), (), 0, 0, 0, ())


def test_tables_then_calls_without_result_and_cost_per_kept_node() -> None:
    assert spend_text(SPEND) == TEXT.strip("\n")


def test_tokens_without_reported_usage_are_named_so_that_the_columns_add_up() -> None:
    charged = SpendSum(2, 9_700, 400, 100)
    text = spend_text(
        SpendReport(1, charged, (SpendRow("evolver", charged),), (), (), (), SpendSum(), (), 0, 0, 0, ()),
        None,
        120,
    )
    assert "reserved  9,200 tokens estimated: the server reported no usage" in text
    assert "estimated" not in spend_text(SPEND)


def test_a_single_table_can_be_selected() -> None:
    text = spend_text(SPEND, "node")
    assert "no node" in text
    assert "operator" not in text


def test_without_calls_the_text_is_one_line() -> None:
    assert spend_text(NOTHING) == "no model was called in run 3"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    text = safe_text(spend_text(SPEND, None, columns, Terminal(colour=True)))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(width, plain.splitlines())) <= columns
    assert "unknown" in plain


def test_only_the_most_expensive_of_many_nodes_are_shown() -> None:
    many = SpendReport(
        1, ALL, (), (), (), tuple(SpendRow(f"1.{n}", SMALL) for n in range(50)), SpendSum(), (), 0, 0, 0, ()
    )
    text = spend_text(many, "node")
    assert "and 30 more: --json prints all" in text
    assert "1.20" not in text
