"""What needs an extra says which in one line, with the command that adds it; nothing else imports one."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from .conftest import TASK, UserPlace

TOP = Path(__file__).parents[2]
SPACE = '[parameters.x]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'


def proposer(kind: str) -> str:
    return f'[proposer]\nkind = "{kind}"\n'


def model(provider: str, **more: str) -> str:
    keys = "".join(f'{name} = "{value}"\n' for name, value in more.items())
    return f'[models.m]\nprovider = "{provider}"\nmodel = "x"\n{keys}[roles.evolver]\nmodel = "m"\n'


NEEDS = {
    "cmaes": (SPACE + proposer("cmaes"), "samplers"),
    "gp": (SPACE + proposer("gp"), "gp"),
    "a rung": (SPACE + proposer("ladder") + '[[proposer.rungs]]\nkind = "cmaes"\n', "samplers"),
    "a tuner": (proposer("mutate") + '[tune]\nslice = "dev"\nsampler = "tpe"\n', "samplers"),
    "a model": (model("openai") + proposer("llm-code"), "models"),
    "Anthropic": (model("anthropic") + proposer("llm-code"), "anthropic"),
    "Google": (model("google") + proposer("llm-code"), "google"),
    "a keyring": (model("groq", keyring="service/me") + proposer("llm-code"), "keyring"),
}
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "k-123456789")


def advice(place: UserPlace, extra: str) -> str:
    """The end of the line that says how to add an extra to an installation from this wheel."""
    (wheel,) = place.installed.venv.parent.glob("*.whl")
    return f" {wheel}[{extra}]"


@pytest.mark.parametrize("name", NEEDS)
def test_a_setting_that_needs_an_extra_says_how_to_add_it(place: UserPlace, name: str) -> None:
    text, extra = NEEDS[name]
    (place.top / "loopty.toml").write_text(TASK + text)
    said = place.refusal("run", "--trust", **KEYS)
    assert said.replace("'", "").endswith(advice(place, extra)), said


VERBS = {
    "config ledger postgresql://me@127.0.0.1/x": "postgres",
    "export trials trials.parquet": "parquet",
    "export mlflow sqlite:///mlflow.db": "mlflow",
    "export wandb project": "wandb",
}


def test_a_verb_that_needs_an_extra_says_how_to_add_it(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    place.loopty("run", "1")
    for line, extra in VERBS.items():
        said = place.refusal(*line.split())
        assert said.replace("'", "").endswith(advice(place, extra)), said


def test_workers_that_need_an_extra_say_how_to_add_it(place: UserPlace) -> None:
    (place.top / "loopty.toml").write_text(TASK)
    told = place.loopty("run", "--listen", "127.0.0.1:0", "--on", "ray:", code=2)
    assert advice(place, "ray") in told.splitlines()[-1].replace("'", "")


def test_an_installation_has_the_recipes(place: UserPlace) -> None:
    for name, line in {"slurm": "srun ", "sky": "sky launch ", "modal": "import modal"}.items():
        assert line in place.loopty("worker", "--recipe", name)


IMPORT = re.compile(r"^(?:from ([\w.]+) import ([\w, ]*)|import ([\w.]+))", re.MULTILINE)


def imports_at_start(path: Path) -> set[str]:
    """Every name that a module imports when it is imported itself, with dots."""
    found: set[str] = set()
    for module, names, alone in IMPORT.findall(path.read_text()):
        found |= {module or alone, *(f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip())}
    return found


def test_only_the_ledger_on_a_server_imports_an_extra_at_its_start() -> None:
    source = TOP / "src"
    paths = {".".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.py")}
    unread = (".testing.", ".recipes.")  # the recipes are printed, for users who have what they import
    imports = {name: imports_at_start(path) for name, path in paths.items() if not any(map(name.count, unread))}
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^\w-]", name)[0] for name in project["dependencies"]}
    known = {"loopty", "loopty_sdk", "_sha2", *required, *sys.stdlib_module_names}
    needs = {name for name, found in imports.items() if {one.partition(".")[0] for one in found} - known}
    while more := {name for name, found in imports.items() if found & needs} - needs:
        needs |= more
    assert {name for name in needs if not name.startswith("loopty.features.shared.postgres")} == set()
    assert needs, "psycopg is imported somewhere"
