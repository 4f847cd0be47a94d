"""What `loopty init` says about noise and about the proposer."""

from loopty.features.setup.proposal_text import noise_text, proposer_text, score_text


def test_noise_is_said_with_advice_only_where_it_is_much():
    assert noise_text("score", [2.0, 2.0, 2.0], 0.0) == "noise: 3 checked runs gave the same score, 2"
    little = noise_text("score", [1.0, 1.01, 0.99], 1.0)
    assert little == "noise: score varied by 1 % over 3 checked runs (0.99 to 1.01)"
    much = noise_text("ms", [1.0, 2.0, 3.0], 50.0)
    assert "varied by 50 %" in much
    assert much.endswith(
        "Measure CPU time and not wall time, let one run do more work, or report the best of several rounds"
    )
    timed = noise_text("score", [1.0, 2.0, 3.0], 50.0, is_cpu_time=True)
    assert timed.endswith("Let one run do more work, or report the best of several rounds")


def test_the_first_line_says_which_number_which_direction_and_why():
    text = score_text("val_bpb", 2.5, "min", "the name val_bpb says so", ("steps", "seconds"))
    assert text == "score: val_bpb 2.5, lower is better (the name val_bpb says so); other numbers: steps, seconds"
    assert score_text("n", 3.0, "max", "", "abcdef").endswith("; other numbers: a, b, c, d and 2 more")


def test_a_direction_that_nobody_gave_is_said_to_be_assumed():
    reason = "(assumed, because sum_radii does not say it; if lower is, start over with --direction min)"
    assert score_text("sum_radii", 2.5, "max", "") == f"score: sum_radii 2.5, higher is better {reason}"


def test_random_edits_are_called_what_they_are():
    assert "a control and a demonstration" in proposer_text("mutate")
    assert "llm-code" in proposer_text("mutate")
    assert "edits no code" in proposer_text("tpe")
