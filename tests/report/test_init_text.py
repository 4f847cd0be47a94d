"""What `loopty init` says about noise and about the proposer."""

from loopty.report.init_text import noise_text, proposer_text


def test_noise_is_said_with_advice_only_where_it_is_much():
    assert noise_text("score", [2.0, 2.0, 2.0], 0.0) == "noise: 3 checked runs gave the same score, 2"
    little = noise_text("score", [1.0, 1.01, 0.99], 1.0)
    assert little == "noise: score varied by 1 % over 3 checked runs (0.99 to 1.01)"
    much = noise_text("ms", [1.0, 2.0, 3.0], 50.0)
    assert "varied by 50 %" in much
    assert "CPU time" in much


def test_random_edits_are_called_what_they_are():
    assert "a control and a demonstration" in proposer_text("mutate")
    assert "llm-code" in proposer_text("mutate")
    assert "edits no code" in proposer_text("tpe")
