"""A proposer from another package."""

import json

from .conftest import ECHO_X, PARAMETER_TASK

PLUGIN = """
from dataclasses import dataclass
from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Proposal
from loopty.proposers.services import ProposerPlugin

@dataclass(frozen=True)
class Options:
    start: float = 1.0

class Halver:
    name = "halver"

    def __init__(self, start):
        self._start = start

    async def propose(self, ask):
        if ask.position == 4:
            raise Exhausted("halved often enough")
        return Proposal(self.name, ask.root.id, "half", {"x": self._start / 2 ** ask.position})

PLUGIN = ProposerPlugin(Options, lambda options, services: Halver(options.start), needs_space=True)
"""


def test_a_proposer_is_found_by_its_entry_point_and_gets_its_options(place, tmp_path, monkeypatch):
    package = tmp_path / "packages"
    (package / "halver-1.0.dist-info").mkdir(parents=True)
    (package / "halver.py").write_text(PLUGIN)
    (package / "halver-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: halver\nVersion: 1.0\n")
    (package / "halver-1.0.dist-info/entry_points.txt").write_text("[loopty.proposer]\nhalver = halver:PLUGIN\n")
    monkeypatch.setenv("PYTHONPATH", str(package))
    task = PARAMETER_TASK.format(attempts=8, command=json.dumps(ECHO_X))
    place.write("loopty.toml", task + '[proposer]\nkind = "halver"\nstart = 0.8\n')
    place.commit()
    done = place.loopty("optimize", "--quiet", "--trust")
    assert "halved often enough" in " ".join(done.stdout.split())
    history = place.history()
    assert [history[node].params["x"] for node in history.ids if node.parent] == [0.8, 0.4, 0.2, 0.1]


def test_an_unknown_proposer_is_reported_with_the_known_ones(place):
    task = PARAMETER_TASK.format(attempts=8, command=json.dumps(ECHO_X))
    place.write("loopty.toml", task + '[proposer]\nkind = "halver"\n')
    place.commit()
    output = place.loopty("optimize", code=2).stderr
    assert "proposer.kind must be one of" in output
    assert "tpe" in output
