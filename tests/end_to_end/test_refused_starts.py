"""A start that is refused records no run, so that the results of the one before stay in view."""

import pytest

from .conftest import CODE_TASK

REFUSED = {
    "no key to the proposer's model": (
        '[proposer]\nkind = "llm-code"\n[roles.evolver]\nmodel = "openai:gpt-5-mini"\n',
        (),
        "needs a key",
    ),
    "no key to the verifier's model": (
        '[verifier]\nreview = "flag"\n[roles.verifier]\nmodel = "openai:gpt-5-mini"\n',
        (),
        "needs a key",
    ),
    "no key to the benchmark's model": ('[roles.user]\nmodel = "openai:gpt-5-mini"\n', (), "needs a key"),
    "no agent": ('[proposer]\nkind = "agent"\nagent = "codex"\n', (), "codex"),
    "no such host": ("", ("--on", "nowhere"), "give an absolute directory"),
    "a cluster that cannot reach this machine": ("", ("--on", "ray:"), "add --listen"),
    "a command's workers that cannot reach this machine": (
        "[executor]\nkind = 'pool'\nstart = 'loopty system worker'\n",
        (),
        "add --listen",
    ),
    "a scheduler without its recipe": ("", ("--on", "slurm:gpu"), "loopty system worker --recipe slurm"),
    "no key to the model of the second stage": (
        '[combine]\nattempts = 1\npatches = true\nwrite = ["src/**"]\nproposer = { kind = "llm-code" }\n'
        '[roles.evolver]\nmodel = "openai:gpt-5-mini"\n',
        (),
        "needs a key",
    ),
    "no such sandbox": ('[sandbox]\nkind = "container"\nimage = "none.invalid/none"\n', (), "no sandbox here"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_start_records_no_run(code_place, monkeypatch, what):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(code_place.top.parent))
    code_place.loopty("run", "1")
    tables, options, reason = REFUSED[what]
    task = CODE_TASK.format(attempts=8).replace("timeout_seconds = 20", "timeout_seconds = 21")
    code_place.write("loopty.toml", task + tables)
    assert reason in code_place.loopty("optimize", "--quiet", *options, code=2).stderr
    assert list(code_place.history().runs) == [1]


def test_a_run_that_no_worker_joined_hides_no_older_one_and_is_used_next(code_place):
    code_place.loopty("run", "1")
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1).replace("= 20", "= 21"))
    host = "ssh://nobody@host.invalid/tmp/none"
    assert "the pool has no worker" in code_place.loopty("optimize", "--quiet", "--on", host, code=2).stderr
    assert "5" in code_place.loopty("best").stdout
    code_place.loopty("optimize", "--quiet", code=None)
    assert list(code_place.history().runs) == [1, 2]
    assert code_place.json("status")["run"] == 2
