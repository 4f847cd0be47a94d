"""What `loopty init` says about noise and about the proposer."""

from loopty.report.init_text import direction_text, noise_text, proposer_text


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


def test_a_direction_that_nobody_gave_is_said_to_be_assumed():
    assert direction_text("max", is_known=True) == "higher is better"
    assumed = 'assumed: higher is better; if lower is, write direction = "min" under [objective]'
    assert direction_text("max", is_known=False) == assumed


def test_random_edits_are_called_what_they_are():
    assert "a control and a demonstration" in proposer_text("mutate")
    assert "llm-code" in proposer_text("mutate")
    assert "edits no code" in proposer_text("tpe")
