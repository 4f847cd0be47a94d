"""Prices of calls: from the spec, from the list, or reported as unknown."""

import math
import subprocess
import sys

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role, Usage
from loopty.models.prices import FREE, Rates, rates_of, require_cap, unknown_price
from loopty.models.purse import Price

NO_CAP = Price(math.inf, math.inf)
UNKNOWN = ModelSpec("openai", "house-model", url="https://models.example.org/v1")


def test_cached_input_has_its_own_price_and_output_too():
    rates = Rates(2.0, 0.5, 10.0)
    assert rates.cost(Usage(1_000_000)) == 2.0
    assert rates.cost(Usage(1_000_000, cached_tokens=1_000_000)) == 0.5
    assert rates.cost(Usage(1_000_000, cached_tokens=400_000)) == pytest.approx(0.6 * 2 + 0.4 * 0.5)
    assert rates.cost(Usage(0, 1000, reasoning_tokens=900)) == pytest.approx(0.01), "reasoning is output"


def test_a_long_request_has_the_price_of_its_tier_for_all_tokens():
    rates = Rates(1.0, 1.0, 2.0, {200_000: Rates(2.0, 2.0, 4.0), 500_000: Rates(3.0, 3.0, 6.0)})
    assert rates.cost(Usage(200_000)) == pytest.approx(0.2)
    assert rates.cost(Usage(200_001)) == pytest.approx(0.400002)
    assert rates.cost(Usage(600_000, 100_000)) == pytest.approx(2.4)


def test_the_affordable_output_follows_from_the_price():
    rates = Rates(1.0, 1.0, 10.0)
    assert rates.affordable_output(1000, 0.011) == pytest.approx(1000)
    assert rates.affordable_output(1000, 0.0005) == 0
    assert FREE.affordable_output(1000, 0.0) == math.inf


def test_prices_of_the_spec_win():
    spec = ModelSpec("openai", "gpt-4o", input_usd=1.0, output_usd=2.0)
    assert rates_of(spec) == Rates(1.0, 1.0, 2.0)
    assert rates_of(ModelSpec("openai", "gpt-4o", input_usd=1.0, output_usd=2.0, cached_usd=0.1)) == Rates(
        1.0, 0.1, 2.0
    )


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec("scripted", file="s"),
        ModelSpec("recorded", file="r"),
        ModelSpec("openai", "qwen", url="http://127.0.0.1:8080/v1"),
        ModelSpec("openai", "qwen", url="http://localhost:11434/v1"),
        ModelSpec("openai", "qwen", url="http://[::1]:8080/v1"),
    ],
)
def test_models_served_on_this_machine_cost_nothing(spec):
    assert rates_of(spec) == FREE
    assert unknown_price("m", spec) is None


def test_the_price_list_knows_common_models_and_their_tiers():
    pytest.importorskip("genai_prices")
    listed = rates_of(ModelSpec("openai", "gpt-4o"))
    assert listed is not None
    assert 0 < listed.cached_usd < listed.input_usd < listed.output_usd
    assert rates_of(ModelSpec("openai", "gpt-4o", url="https://api.openai.com/v1")) == listed
    tiered = rates_of(ModelSpec("google", "gemini-2.5-pro"))
    assert tiered is not None
    assert tiered.cost(Usage(300_000)) > 1.4 * 300_000 / 1e6 * tiered.input_usd


@pytest.mark.parametrize("spec", [UNKNOWN, ModelSpec("openai", "no-such-model"), ModelSpec("nobody", "gpt-4o")])
def test_an_unknown_price_is_reported_with_its_remedy(spec):
    assert rates_of(spec) is None
    assert unknown_price("fast", spec) == (
        "model fast has no known price: only tokens are counted; give input_usd and output_usd under [models.fast]"
    )


def test_a_shorthand_is_quoted_in_the_remedy():
    assert '[models."openai:no-such-model"]' in (unknown_price("openai:no-such-model", UNKNOWN) or "")


def test_capped_money_needs_a_price_or_a_cap_on_tokens():
    with pytest.raises(Misuse, match=r"input_usd and output_usd under \[models.fast\], or cap tokens"):
        require_cap(Role.EVOLVER, "fast", UNKNOWN, Price(math.inf, 5.0))
    require_cap(Role.EVOLVER, "fast", UNKNOWN, Price(1000, 5.0))
    require_cap(Role.EVOLVER, "fast", UNKNOWN, NO_CAP)
    require_cap(Role.EVOLVER, "fast", ModelSpec("scripted", file="s"), Price(math.inf, 5.0))


def test_without_the_price_list_only_prices_of_the_spec_are_known():
    script = (
        "import sys; sys.modules['genai_prices'] = None\n"
        "from loopty.domain.model import ModelSpec; from loopty.models.prices import rates_of\n"
        "assert rates_of(ModelSpec('openai', 'gpt-4o')) is None\n"
        "assert rates_of(ModelSpec('openai', 'gpt-4o', input_usd=1.0, output_usd=1.0))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_price_list_is_not_read_before_it_is_needed():
    script = "import sys, loopty.models.catalogue; sys.exit('genai_prices' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
