import os

import pytest

from loopty.domain.benchmark import Benchmark, CascadeStage, Gate
from loopty.domain.model import ModelSpec
from loopty.domain.task import Audit, SandboxSpec
from loopty.domain.task_tables import Anchors, Combine, ExecutorSpec, Tune
from loopty.features.agents.options import AgentOptions
from loopty.kit.records import fields_of
from loopty.taskfile.read import TABLES, TOP_KEYS, parse
from loopty.taskfile.task_requests import task_requests

PLAIN = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
{benchmark}
[access]
write = ["src/**"]
{tables}
"""
AGENT = '[proposer]\nkind = "agent"\n'
MODEL = '[models.far]\nprovider = "openai"\nmodel = "m"\n'


def requests(top, benchmark="", tables="", user_models=None):
    own = user_models or {}
    task = parse(PLAIN.format(benchmark=benchmark, tables=tables), own)
    return [str(request) for request in task_requests(task, top, own)]


def test_a_task_with_defaults_asks_for_nothing(tmp_path):
    (tmp_path / "gold").mkdir()
    inside = f'mounts = ["weights"]\ndata = ["gold", "{tmp_path}/gold/a"]\nenv = {{ A = "b" }}\nisolated = true'
    tables = '[audit]\nfiles = ["held/**"]\ndata = ["gold/b"]\n[limits]\nmemory_mb = 9999\n'
    files = 'files = ["bench.sh"]'
    assert requests(tmp_path, f"{inside}\n{files}", tables) == []


@pytest.mark.parametrize(
    ("benchmark", "tables", "expected"),
    [
        ("network = true", "", "the network, and the services of this machine (benchmark.network)"),
        ('mounts = ["/etc/ssl"]', "", "to read '/etc/ssl' (benchmark.mounts)"),
        ('mounts = ["../beside"]', "", "beside' (benchmark.mounts)"),
        ('mounts = [".."]', "", "(benchmark.mounts)"),
        ('mounts = ["."]', "", "(benchmark.mounts)"),
        ('mounts = [".git/config"]', "", ".git/config' (benchmark.mounts)"),
        ('data = ["~/.ssh"]', "", ".ssh' (benchmark.data)"),
        ("", '[audit]\ndata = ["/etc/ssl"]', "to read '/etc/ssl' (audit.data)"),
        ("", "[sandbox]\nrequire = []", "a sandbox that need not protect 'write' (sandbox.require)"),
        ("", '[sandbox]\nkind = "container"\nimage = "evil"', "the container image 'evil' (sandbox.image)"),
        ("", "[sandbox]\ngpus = true", "the GPUs of this machine (sandbox.gpus)"),
        (
            "",
            f'{MODEL}url = "http://127.0.0.1:9/v1"\n',
            "openai:m at http://127.0.0.1:9/v1, with no key (models.far)",
        ),
        ("", f'{MODEL}key_env = "GITHUB_TOKEN"\n', "with the key in GITHUB_TOKEN (models.far)"),
        ("", '[roles.user]\nmodel = "openai:gpt-5-mini"', "openai:gpt-5-mini at openai"),
        ("", '[models.r]\nprovider = "recorded"\nfile = "/etc"', "replies from '/etc' (models.r)"),
        ("", '[models.s]\nprovider = "scripted"\nfile = "../s.jsonl"', "s.jsonl' (models.s)"),
        ("", f'{AGENT}agent = "codex"', "your login of codex, the network and the services of this machine"),
        ("", f'{AGENT}agent = "command"\ncommand = "evil"', "a coding agent with the command 'evil'"),
        ("", f'{AGENT}agent = "pi"\nlogin = [".ssh/id"]', "to give it '.ssh/id' of your home (proposer.login)"),
        ("", f'{AGENT}agent = "pi"\nvariables = ["TOKEN"]', "your variable TOKEN (proposer.variables)"),
        ("", f'{AGENT}agent = "pi"\nargs = ["--bad"]', "to start it with '--bad' (proposer.args)"),
        ("", '[proposer]\nkind = "ladder"\n[[proposer.rungs]]\nkind = "agent"\nagent = "pi"', "your login of pi"),
        ("", '[executor]\nhosts = ["ssh://me@box/a"]', "to start workers at 'ssh://me@box/a' (executor.hosts)"),
        (
            "",
            '[executor]\nstart = "rent"\nworkers = 8',
            "your full permissions, to run 'rent' 8 times without a sandbox (executor.start)",
        ),
        ("", '[agents]\nmay = ["discard"]', "coding agents to discard what others made (agents.may)"),
    ],
)
def test_what_reaches_outside_is_a_request(tmp_path, benchmark, tables, expected):
    assert any(expected in request for request in requests(tmp_path, benchmark, tables))


def test_a_link_inside_the_repository_does_not_hide_what_it_leads_to(tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/data").symlink_to("/etc/ssl")
    assert requests(tmp_path / "repo", 'mounts = ["data"]') == [
        f"to read '{os.path.realpath('/etc/ssl')}' (benchmark.mounts)"
    ]


def test_models_of_the_user_and_of_the_repository_need_no_permission(tmp_path):
    own = {"mine": ModelSpec("openai", "m", url="http://127.0.0.1:9/v1")}
    tables = '[roles.user]\nmodel = "mine"\n[models.s]\nprovider = "scripted"\nfile = "s.jsonl"\n'
    assert requests(tmp_path, "", tables, own) == []
    redefined = '[models.mine]\nprovider = "openai"\nmodel = "m"\nurl = "http://127.0.0.1:10/v1"\n'
    assert requests(tmp_path, "", redefined, own)


def test_an_agent_with_a_served_model_asks_for_that_model_alone(tmp_path):
    tables = f'{AGENT}agent = "codex"\n[roles.evolver]\nmodel = "openai:m"\n'
    assert requests(tmp_path, "", tables) == [
        "calls to openai:m at openai, with the key in OPENAI_API_KEY (roles.evolver.model)"
    ]


def test_every_agent_of_a_fleet_asks_with_what_it_shares(tmp_path):
    members = '[[proposer.agents]]\nagent = "codex"\n[[proposer.agents]]\nagent = "claude"\nargs = ["-x"]\n'
    found = requests(tmp_path, "", f'{AGENT}login = [".netrc"]\n{members}')
    assert sum("your login of codex" in words for words in found) == 1
    assert sum("your login of claude" in words for words in found) == 1
    assert sum("'.netrc' of your home" in words for words in found) == 2
    assert sum("start it with '-x'" in words for words in found) == 1


def test_every_key_of_the_schema_was_considered():
    """A new key fails here until somebody has decided whether it reaches outside: see task_requests."""
    harmless_or_asked = {
        Benchmark: "command timeout_seconds files result score_key rows measure scratch caches writable_copy warm "
        "isolated data env mounts network resources devices share_devices grace_seconds cascade",
        CascadeStage: "name command timeout_seconds metric minimum maximum",
        SandboxSpec: "kind require engine image gpus",
        ExecutorSpec: "kind hosts start workers listen lease_seconds wait_seconds",
        AgentOptions: "agent command stream model args login variables timeout_seconds memory_mb disk_mb parents "
        "briefing agents name weight prompt surface stalls",
        Audit: "command files data timeout_seconds",
        Anchors: "versions audits",
        Combine: "write parameters patches command members patience attempts wall_seconds proposer",
        Tune: "slice trials sampler",
        Gate: "name command when timeout_seconds metric minimum maximum",
        ModelSpec: "provider model url key_env keyring file stream temperature max_output_tokens context_tokens "
        "timeout_seconds retries outage_seconds requests_per_minute tokens_per_minute input_usd cached_usd "
        "output_usd settings",
    }
    for table, known in harmless_or_asked.items():
        assert {field.name for field in fields_of(table)} == set(known.split()), table
    tables = (
        "access agents anchors audit benchmark budget combine executor limits noise objective profile roles "
        "sandbox tune verifier"
    )
    assert " ".join(sorted(TABLES)) == tables
    assert set(TOP_KEYS) == {"goal", "width", "seed", "parameters_file"}


def test_what_combines_asks_like_any_proposer(tmp_path):
    combine = '[combine]\nwrite = ["b"]\nproposer = { kind = "agent", agent = "codex" }\n'
    assert any("your login of codex" in words for words in requests(tmp_path, tables=combine))
