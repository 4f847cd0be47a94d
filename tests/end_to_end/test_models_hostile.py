"""Task files from strangers and hostile models, through the command line."""

import json

from .conftest import CODE_TASK
from .serving import evolver, number, permit, table, vendor, words

KEY = "sk-a-secret-of-the-hostile-tests-0123456789"
WAYS_OUT = (
    "../out.txt",
    "src/../bench.sh",
    "src/../../out.txt",
    "/tmp/loopty-hostile-out.txt",
    ".git/hooks/pre-commit",
    "src/.git/hooks/pre-commit",
    "src/.GIT/config",
    "src/.git./config",
    "src/git~1/config",
    "loopty.toml",
    "bench.sh",
    "src/link/out.txt",
    "src/hidden.txt",
    "src/in\u200bvisible.txt",
    "src//x.txt",
    ".loopty/ledger.db",
)


def test_a_task_file_from_a_stranger_sends_no_secret_to_its_server(code_place, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(code_place.top.parent / "nothing"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEY)
    with vendor(number(7)) as server:
        more = evolver(server, key_env="AWS_SECRET_ACCESS_KEY")
        code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + more)
        for verb in (("optimize",), ("model", "ask", "near")):
            done = code_place.loopty(*verb, code=2)
            assert f"would send AWS_SECRET_ACCESS_KEY to {server.url}, and a task file may come" in done.stderr
        (listed,) = code_place.json("model", "list")
        assert "AWS_SECRET_ACCESS_KEY" in listed["problem"]
        assert server.requests == []
        permit(monkeypatch, code_place, server, "AWS_SECRET_ACCESS_KEY")
        code_place.loopty("optimize")
    assert server.requests


def test_a_model_can_change_only_writable_files(code_place):
    (code_place.top / "src/link").symlink_to(code_place.top.parent)
    code_place.write("src/hidden.txt", "a hidden word\n")
    code_place.commit()
    batch = "\n".join(
        f"=== PROPOSAL {at}: out ===\n{path}\n```\nout\n```" for at, path in enumerate(WAYS_OUT, start=1)
    )
    with vendor(batch + "\n=== END ===", number(7)) as server:
        text = CODE_TASK.format(attempts=1).replace("[pools]", 'hidden = ["src/hidden.txt"]\n[pools]')
        made = evolver(server).replace(
            table("proposer", kind="llm-code"), table("proposer", kind="llm-code", batch=16)
        )
        code_place.write("loopty.toml", text + made)
        before = {path: path.read_bytes() for path in code_place.top.rglob("*") if path.is_file()}
        code_place.loopty("optimize")
    assert len(server.requests) == 2, "the first reply has no usable proposal"
    assert "hidden" not in words(server.requests[0].body)
    assert not (code_place.top.parent / "out.txt").exists()
    history = code_place.history()
    assert tuple(history["1.1"].edits) == ("src/x.txt",)
    changed = {path for path, content in before.items() if path.read_bytes() != content}
    assert all(".git" in path.parts or ".loopty" in path.parts for path in changed)


def test_a_model_never_sees_a_file_that_usually_holds_a_key(code_place):
    code_place.write(".env", f"OPENAI_API_KEY={KEY}\n")
    with vendor(number(7)) as server:
        code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + evolver(server))
        code_place.loopty("optimize")
    sent = json.dumps([request.body for request in server.requests])
    assert KEY not in sent
    assert ".env" not in sent
