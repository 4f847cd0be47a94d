"""A proposer and a selector from another package."""

import json

import pytest

from .conftest import CODE_TASK, ECHO_X, PARAMETER_TASK

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
SELECTOR = """
from dataclasses import dataclass
from loopty.engine.protocols import Selection

@dataclass(frozen=True)
class Newest:
    depth: int = 9

    def select(self, ask):
        nodes = [node for node in ask.nodes if node.id.depth < self.depth]
        return Selection(nodes[-1] if nodes else ask.root, "the newest node that is not too deep")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package of this name with one entry point on the path."""

    def put(name: str, text: str, entry_point: str) -> None:
        about = tmp_path / "packages" / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        about.with_name(f"{name}.py").write_text(text)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(entry_point)
        monkeypatch.setenv("PYTHONPATH", str(about.parent))

    return put


def test_a_selector_is_found_by_its_entry_point_gets_its_options_and_needs_a_yes(code_place, install):
    install("newest", SELECTOR, "[loopty.selector]\nnewest = newest:Newest\n")
    parents = '{ kind = "newest", depth = 2 }'
    code_place.write(
        "loopty.toml", CODE_TASK.format(attempts=4) + f'[proposer]\nkind = "mutate"\nparents = {parents}\n'
    )
    code_place.commit()
    refused = code_place.loopty("optimize", "--quiet", code=2).stderr
    assert "the selector 'newest' of another package (proposer.parents)" in refused
    code_place.loopty("optimize", "--quiet", "--trust", code=None)
    assert [*map(str, code_place.history().ids)] == ["1", "1.1", "1.1.1", "1.1.2", "1.1.3"]


def test_an_entry_point_that_is_no_selector_is_reported(code_place, install):
    install("newest", SELECTOR, "[loopty.selector]\nnewest = newest:dataclass\n")
    code_place.write("loopty.toml", CODE_TASK.format(attempts=4) + '[proposer]\nparents = "newest"\n')
    refused = code_place.loopty("optimize", code=2).stderr
    assert "loads newest:dataclass, which is no Selector: see `loopty.engine.protocols`" in refused


def test_a_proposer_is_found_by_its_entry_point_and_gets_its_options(place, install):
    install("halver", PLUGIN, "[loopty.proposer]\nhalver = halver:PLUGIN\n")
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
