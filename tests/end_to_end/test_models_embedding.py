"""A change is compared with earlier ones by the embeddings of a model, or without them where there are none."""

import json

from loopty.domain.pool import Pool
from loopty.record.calls import CallReserved, Spend
from loopty.record.proposals import ProposalRefused
from loopty.record.trials import TrialCounts

from ..models.server import Connection, ScriptedServer, answer, refusal
from .conftest import CODE_TASK, Place
from .serving import model, table, vendor
from .state import events

BENCH = 'echo "{\\"score\\": $(wc -c < src/x.py)}" > "$EVO_RESULT_PATH"\n'
KEY = "sk-secret-of-the-embedding-tests-0123456789"


def program(line: str) -> str:
    return f"=== PROPOSAL 1: {line} ===\nsrc/x.py\n```\n{line}\n```\n=== END ==="


def topics(connection: Connection) -> None:
    """Vectors by what texts are about."""
    texts = connection.request.body["input"]
    given = [[1.0, 0.1, 0.0] if "sort" in text else [0.0, 0.1, 1.0] for text in texts]
    data = [{"object": "embedding", "index": at, "embedding": vector} for at, vector in enumerate(given)]
    usage = {"prompt_tokens": 11, "total_tokens": 11}
    answer({"object": "list", "model": "e-1", "data": data, "usage": usage})(connection)


def searching(place: Place, evolving: ScriptedServer, embedding: ScriptedServer, attempts: int, **keys) -> None:
    place.write("bench.sh", BENCH)
    place.write("src/x.py", "a_long_line_that_nobody_will_ever_make_longer = True  # for ever and ever and ever\n")
    more = model(evolving) + model(embedding, "vectors", model="e-1", **keys)
    more += table("roles.evolver", model="near")
    more += table("proposer", kind="llm-code", operators=["diff"], embedding="vectors", parents="root")
    place.write("loopty.toml", CODE_TASK.format(attempts=attempts) + more)
    place.commit()


def test_a_change_with_the_same_meaning_is_refused_and_embeddings_are_paid_separately(code_place):
    same = program("result = sort_by_insertion(items)")
    replies = (program("items.sort()"), same, same, program("cache = {}"))
    with vendor(*replies) as evolving, ScriptedServer(topics) as embedding:
        searching(code_place, evolving, embedding, 2)
        code_place.loopty("optimize")
    (refused,) = [event for event in events(code_place) if isinstance(event, ProposalRefused)]
    assert refused.reason == "it is almost the same as @2 (similarity 1.000)"
    assert {request.path for request in embedding.requests} == {"/v1/embeddings"}
    rows = {row["name"]: row["sum"] for row in code_place.json("spend")["operator"]}
    assert rows.keys() == {"diff", "embed"}
    assert rows["embed"]["tokens"] == 11 * len(embedding.requests)
    assert rows["embed"]["output_tokens"] == 0
    (wasted,) = code_place.json("spend")["waste"]
    assert (wasted["name"], wasted["sum"]["calls"]) == ("refused: duplicate", 2)
    assert Spend.of(code_place.history().runs[1]).unread == {}


def test_a_server_without_embeddings_does_not_end_the_run(code_place, monkeypatch):
    monkeypatch.setenv("LOOPTY_TEST_KEY", KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(code_place.top.parent / "config"))
    replies = (program("items.sort()"), program("result = sort_by_insertion(items)"), program("cache = {}"))
    with vendor(*replies) as evolving, ScriptedServer(refusal(401, f"no such key: {KEY}")) as embedding:
        code_place.write("../config/loopty/config.toml", table("keys", LOOPTY_TEST_KEY=embedding.url))
        searching(code_place, evolving, embedding, 3, key_env="LOOPTY_TEST_KEY")
        done = code_place.loopty("optimize")
    assert TrialCounts.of(code_place.history().runs[1], Pool.ATTEMPT).started == 3
    asked = [
        event for event in events(code_place) if isinstance(event, CallReserved) and event.operator == "embed"
    ]
    assert len(asked) == len(embedding.requests) > 0
    assert KEY not in done.stdout + done.stderr + json.dumps(code_place.json("spend"))


def test_an_unknown_embedding_model_is_reported_with_its_line(code_place):
    with vendor("nothing") as evolving:
        searching(code_place, evolving, evolving, 1)
        text = (code_place.top / "loopty.toml").read_text()
        code_place.write("loopty.toml", text.replace('embedding = "vectors"', 'embedding = "vectrs"'))
        refused = code_place.loopty("optimize", code=2)
        assert (
            "proposer.embedding is 'vectrs', which is not a known model: known are near, vectors" in refused.stderr
        )
        assert evolving.requests == []
