"""`init` measures what a trial uses; `optimize` chooses the width from that and says why."""

import tomllib

from loopty.executors.this_machine import this_capacity

INIT = ("init", "--command", "sh bench.sh", "--write", "src/**", "--attempts", "1", "--yes", "--force")


def test_a_probed_task_keeps_its_profile_and_an_explicit_width_wins(code_place):
    done = code_place.loopty(*INIT)
    text = (code_place.top / "loopty.toml").read_text()
    profile = tomllib.loads(text)["profile"]
    assert profile["steady"] is True
    assert profile["seconds"] > 0
    assert profile["memory_mb"] > 0
    assert "width" not in tomllib.loads(text)
    assert "trials at once: " in done.stderr
    shown = code_place.loopty("optimize", code=None).stderr
    assert f"of {this_capacity().cores} cores" in shown or "at most 8" in shown or "of memory" in shown
    code_place.write("loopty.toml", f"width = 3\n{text}")
    assert "width 3" not in code_place.loopty("optimize", code=None).stderr


def test_a_score_that_varies_keeps_trials_apart(code_place):
    code_place.write("bench.sh", 'echo "{\\"score\\": $(od -An -N2 -tu2 /dev/urandom)}" > "$EVO_RESULT_PATH"\n')
    code_place.commit()
    done = code_place.loopty(*INIT, "--unproven")
    assert "trials at once: 1, because no equal scores show" in " ".join(done.stderr.split())
