"""The models of roles, as a campaign makes them."""

from collections import Counter

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Role, Speaker
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.sqlite import MemoryLedger
from loopty.models.purse import RunPurse
from loopty.record.calls import CallReserved
from loopty.record.recorder import Recorder
from loopty.session.models import RoleModels
from loopty.taskfile.read import parse
from loopty.testing.ledger_suite import run_events
from loopty.workspaces.state_folder import StateFolder

TASK = """
[benchmark]
command = "true"
timeout_seconds = 9
[access]
write = ["src/**"]
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[proposer]
kind = "random"
[models.cheap]
provider = "scripted"
file = "cheap.jsonl"
[models.dear]
provider = "scripted"
file = "dear.jsonl"
[verifier]
review = "flag"
[roles.verifier]
model = "cheap"
models = { dear = 0.5 }
"""


async def test_a_verifier_with_several_models_asks_each_by_its_weight(tmp_path):
    for name in ("cheap", "dear"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"text": "{name}"}}\n' * 60)
    task, ledger = parse(TASK), MemoryLedger()
    recorder = Recorder(ledger, lambda: 0.0)
    recorder.record(lambda _: run_events())
    purse = RunPurse(recorder, 1, task.pools, "me", task.roles)
    models = RoleModels(task, StateFolder(tmp_path, SafeFolder(tmp_path, ("state",))), purse)
    verifier = models.of(Role.VERIFIER)
    answers = Counter[str]()
    for number in range(60):
        prompt = Prompt("rules", (Message(Speaker.ASKER, f"change {number}"),))
        answer = await verifier.ask(prompt, "review", NodeId("1"))
        assert verifier.reply_of(answer.call).text == answer.reply.text
        answers[answer.reply.text] += 1
    assert 8 < answers["dear"] < 32, "a third"
    asked = Counter(item.event.model for item in ledger.read() if isinstance(item.event, CallReserved))
    assert sorted(asked.values()) == sorted(answers.values()), "each is paid under its own name"
