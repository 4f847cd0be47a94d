"""A coding agent with a model that loopty serves: metered, capped, and with no other network."""

from .conftest import CODE_TASK, Place
from .serving import model, table, vendor

ASK = """
import json, os, socket, sys, urllib.request

assert os.environ["OPENAI_API_KEY"].startswith("loopty-")
body = {"model": "any", "messages": [{"role": "user", "content": "which number?"}], "max_tokens": 50}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(body).encode(),
    {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
try:
    reply = json.load(urllib.request.urlopen(request))
except urllib.error.HTTPError as error:
    sys.exit(f"{error.code} {error.read().decode()}")
open("src/x.txt", "w").write(reply["choices"][0]["message"]["content"])
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2)
except OSError:
    print("SUMMARY: no other network")
"""


def set_up(place: Place, server, **caps: int) -> None:
    place.write("agent.py", ASK)
    place.commit()
    port = server.url.rpartition(":")[2]
    place.write(
        "loopty.toml",
        CODE_TASK.format(attempts=1)
        + table("noise", repeat="never")
        + model(server, input_usd=1.0, output_usd=2.0)
        + table("roles.evolver", model="near", **caps)
        + table("proposer", kind="agent", agent="command", command=["python3", "agent.py", port]),
    )


def test_a_served_model_is_metered_and_is_the_only_network(code_place):
    with vendor("7") as server:
        set_up(code_place, server)
        code_place.loopty("optimize")
    node = code_place.history()["1.1"]
    assert (node.outcome.metrics["score"], node.summary) == (7, "no other network")
    total = code_place.json("spend")["total"]
    assert (total["tokens"], total["calls"]) == (120, 2)
    assert len(node.calls) == 2


def test_a_cap_ends_the_search_and_is_no_outage(code_place):
    with vendor("7") as server:
        set_up(code_place, server, tokens=20)
        done = code_place.loopty("optimize", code=1)
    assert "would pass the limit of 20 for the evolver" in done.stdout
    assert not server.requests
