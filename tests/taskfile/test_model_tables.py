"""Models: stated in the task file or in the user's own, and named by roles."""

from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.domain.task import PluginChoice, RoleBudget, Roles, VerifierSpec
from loopty.taskfile.model_tables import check_roles, make_key_refusal, user_config_file, user_config_models
from loopty.taskfile.read import load, parse
from loopty.taskfile.schema import Checker

TASK = '[benchmark]\ncommand = "python3 evaluate.py"\ntimeout_seconds = 30\n[access]\nwrite = ["program.py"]\n'
FAST = '[models.fast]\nprovider = "openai"\nmodel = "m"\n'


def faults(text):
    with pytest.raises(Misuse) as caught:
        parse(TASK + text)
    return str(caught.value)


@pytest.fixture
def own(tmp_path):
    """Writes the user's own file; the environment in which it is found."""
    (tmp_path / "config" / "loopty").mkdir(parents=True)

    def write(text):
        (tmp_path / "config" / "loopty" / "config.toml").write_bytes(
            text if isinstance(text, bytes) else text.encode()
        )
        return {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    return write


@pytest.fixture
def top(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "loopty.toml").write_text(TASK)
    return tmp_path / "task"


def test_a_model_is_stated_and_named():
    task = parse(
        TASK + FAST + "temperature = 0.5\nsettings = { seed = 3, reasoning_effort = 'low' }\n"
        '[roles.evolver]\nmodel = "fast"\ntokens = 1000\n[roles.verifier]\nmodel = "anthropic:claude"\n'
    )
    assert task.models["fast"].temperature == 0.5
    assert task.models["fast"].settings == {"seed": 3, "reasoning_effort": "low"}
    assert (task.roles.evolver.model, task.roles.evolver.tokens) == ("fast", 1000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[models.a]\nmodel = "m"\n', "models.a.provider is missing"),
        ('[models.a]\nprovider = "openai"\n', "models.a.model is missing"),
        ('[models.a]\nprovider = "scripted"\n', "models.a.file is missing: the script of replies"),
        ('[models.a]\nprovider = "recorded"\n', "models.a.file is missing: the folder of recorded calls"),
        ('[models.a]\nprovider = "local"\n', "models.a.file is missing: the GGUF file"),
        (
            '[models.a]\nprovider = "opnai"\n',
            "models.a.provider is unknown: no provider is called 'opnai'; did you",
        ),
        (
            '[models.a]\nprovider = "acme"\n',
            "no provider is called 'acme'; a server that speaks OpenAI's chat API",
        ),
        (
            '[roles.evolver]\nmodel = "opnai:gpt"\n',
            "roles.evolver.model is 'opnai:gpt', but no provider is called 'opnai'; did you mean 'openai'?",
        ),
        (FAST + "input_usd = 1\n", "models.fast.output_usd is missing: prices count together"),
        (FAST + "cached_usd = 1\n", "models.fast.input_usd is missing: prices count together"),
        (FAST + "retries = -1\n", "models.fast.retries must be at least 0"),
        (FAST + "kee_env = 'X'\n", "models.fast.kee_env is no known key; did you mean 'key_env'?"),
        (
            '[roles.evolver]\nmodel = "quick"\n',
            "roles.evolver.model is 'quick', which is no model: add [models.quick]",
        ),
        (FAST + '[roles.user]\nmodel = "fats"\n', "which is no model: known are fast; add [models.fats]"),
        (
            "[verifier]\nscreen = true\n",
            'verifier.screen needs a model: name one, as in [roles.verifier] model = "…"',
        ),
        (
            FAST + '[roles.evolver]\nmodel = "fast"\ntrial_tokens = 9\n',
            "roles.evolver.trial_tokens is for [roles.user] alone: no trial asks the model of others",
        ),
        ("[roles.verifier]\ntrial_money_usd = 0.1\n", "roles.verifier.trial_money_usd is for [roles.user] alone"),
        ("[roles.user]\ntrial_tokens = 0\n", "roles.user.trial_tokens must be above 0"),
        ('[verifier]\nreview = "flag"\n', "verifier.review needs a model"),
        (
            '[[verifier.judged]]\nname = "a"\nartifact = "b"\nquestion = "c"\n',
            "verifier.judged needs a model",
        ),
    ],
)
def test_each_fault_has_its_line_and_a_remedy(text, told):
    found = faults(text)
    assert told in found
    assert found.startswith("loopty.toml:")


def test_of_a_misspelt_provider_nothing_else_is_told():
    assert faults('[models.a]\nprovider = "opnai"\n').count("\n") == 0


def test_models_that_are_no_tables_are_a_fault():
    with pytest.raises(Misuse, match="models must be tables"):
        parse("models = 3\n" + TASK)


@pytest.mark.parametrize(
    ("proposer", "place"),
    [
        (PluginChoice("llm-code"), "proposer.kind"),
        (PluginChoice("llm-parameters"), "proposer.kind"),
        (PluginChoice("ladder", {"rungs": [{"kind": "grid"}, {"kind": "llm-code"}]}), "proposer.rungs.1.kind"),
    ],
)
def test_a_proposer_that_asks_needs_a_model_for_the_evolver(proposer, place):
    checker = Checker()
    check_roles(Roles(), VerifierSpec(), proposer, (), checker)
    (fault,) = checker.faults
    assert fault.key == place
    assert fault.message.endswith('needs a model: name one, as in [roles.evolver] model = "…"')
    checker = Checker()
    check_roles(Roles(evolver=RoleBudget("openai:m")), VerifierSpec(), proposer, (), checker)
    assert checker.faults == []


@pytest.mark.parametrize(
    ("proposer", "place"),
    [
        (PluginChoice("llm-code", {"embedding": "vectrs"}), "proposer.embedding"),
        (
            PluginChoice("ladder", {"rungs": [{"kind": "tpe"}, {"kind": "llm-code", "embedding": "vectrs"}]}),
            "proposer.rungs.1.embedding",
        ),
    ],
)
def test_what_changes_are_compared_by_is_a_model_that_there_is(proposer, place):
    checker = Checker()
    roles = Roles(evolver=RoleBudget("vectors"))
    check_roles(roles, VerifierSpec(), proposer, ("vectors",), checker)
    (fault,) = checker.faults
    assert fault.key == place
    assert fault.message.startswith("is 'vectrs', which is no model: known are vectors; add [models.vectrs]")
    for sound in ({"embedding": "vectors"}, {"embedding": "openai:m"}, {"embedding": ""}, {"rungs": 3}):
        checker = Checker()
        check_roles(roles, VerifierSpec(), PluginChoice("llm-code", sound), ("vectors",), checker)
        assert checker.faults == []


def test_a_proposer_of_another_package_may_mean_something_else_by_an_embedding():
    rung = {"kind": "theirs", "embedding": "minilm"}
    for proposer in (PluginChoice("theirs", {"embedding": "minilm"}), PluginChoice("ladder", {"rungs": [rung]})):
        checker = Checker()
        check_roles(Roles(), VerifierSpec(), proposer, (), checker)
        assert checker.faults == []


def test_a_model_in_the_users_own_file_serves_every_task(own, top):
    environ = own(FAST)
    task = load(top, environ)
    assert task.models == {"fast": ModelSpec("openai", "m")}
    (top / "loopty.toml").write_text(TASK + '[roles.evolver]\nmodel = "fast"\n')
    assert load(top, environ).roles.evolver.model == "fast"


def test_the_task_files_model_wins_over_the_users_own(own, top):
    (top / "loopty.toml").write_text(TASK + FAST.replace('"m"', '"theirs"'))
    assert load(top, own(FAST)).models["fast"].model == "theirs"


def test_the_users_own_models_do_not_change_what_results_are_comparable_by(own, top):
    (top / "loopty.toml").write_text(TASK + FAST + '[roles.user]\nmodel = "fast"\n')
    alone = load(top, {"XDG_CONFIG_HOME": str(top / "none")}).criteria("b", "d")
    assert load(top, own('[models.other]\nprovider = "openai"\nmodel = "m"\n')).criteria("b", "d") == alone


def test_what_a_trial_may_spend_is_a_part_of_what_results_are_comparable_by():
    user = TASK + FAST + '[roles.user]\nmodel = "fast"\n'
    alone = parse(user).criteria("b", "d")
    assert parse(user + "tokens = 9\n").criteria("b", "d") == alone
    bounded = [parse(user + f"trial_tokens = {tokens}\n").criteria("b", "d") for tokens in (9, 10)]
    assert bounded[0] != bounded[1] != alone
    assert bounded[0].items() >= alone.items()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[models.a]\n", ":1: models.a.provider is missing"),
        ("\n" + FAST + "retries = 'x'\n", ":5: models.fast.retries must be a whole number"),
        ("[roles.evolver]\nmodel = 'a'\n", ":1: roles is no known key; known here: models"),
        ("[models", "is not valid TOML"),
        (b"# \xff\n", ":1: holds bytes that are no UTF-8"),
    ],
)
def test_a_fault_in_the_users_own_file_is_named_with_that_file_and_line(own, top, text, told):
    environ = own(text)
    with pytest.raises(Misuse) as caught:
        load(top, environ)
    assert str(caught.value).startswith(str(user_config_file(environ)))
    assert told in str(caught.value)


def test_a_file_in_the_users_own_file_is_found_beside_it(own):
    environ = own(
        "[models.a]\nprovider = 'scripted'\nfile = 'replies.jsonl'\n"
        "[models.b]\nprovider = 'recorded'\nfile = '/r'\n"
    )
    models = user_config_models(environ)
    assert models["a"].file == str(user_config_file(environ).parent / "replies.jsonl")
    assert models["b"].file == "/r"


def test_where_the_users_own_file_is(tmp_path):
    assert user_config_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/loopty/config.toml")
    for environ in ({"HOME": "/h"}, {"HOME": "/h", "XDG_CONFIG_HOME": ""}, {"HOME": "/h", "XDG_CONFIG_HOME": "x"}):
        assert user_config_file(environ) == Path("/h/.config/loopty/config.toml")
    assert user_config_models({"XDG_CONFIG_HOME": str(tmp_path)}) == {}


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter22@host/v1",
        "https://me@host/v1",
        "https://host/v1?key=hunter22",
        "https://host/v1#hunter22",
        "file:///etc/passwd",
        "host/v1",
        "https://",
        "https://host:99999/v1",
        "https://host/\\u001b[31m",
    ],
)
def test_an_address_is_an_address_and_nothing_secret(url):
    told = faults(FAST + f'url = "{url}"\n')
    assert "models.fast.url must be an address as in https://HOST/v1" in told
    assert "hunter22" not in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("api_key", "a key has no place in a file"),
        ("X-Api-Key", "a key has no place in a file"),
        ("Authorization", "a key has no place in a file"),
        ("extra_headers", "a key has no place in a file"),
        ("client_secret", "a key has no place in a file"),
        ("max_completion_tokens", "which loopty says itself"),
        ("model", "which loopty says itself"),
        ("n", "which loopty says itself"),
    ],
)
def test_settings_hold_neither_keys_nor_what_gets_past_the_caps(name, told):
    said = faults(FAST + f'settings = {{ "{name}" = "hunter22" }}\n')
    assert told in said
    assert "hunter22" not in said


@pytest.mark.parametrize("name", ["api_key", "key", "OPENAI_API_KEY", "password"])
def test_a_key_in_the_table_of_a_model_is_told_where_it_belongs(name):
    said = faults(FAST + f'{name} = "hunter22"\n')
    told = f"models.fast.{name} is no place for a key: set the usual variable, or name one in `key_env`"
    assert said.endswith(told)
    assert "hunter22" not in said


def test_settings_that_only_sound_like_keys_are_settings():
    settings = parse(TASK + FAST + 'settings = { prompt_cache_key = "a", top_k = 3 }\n').models["fast"].settings
    assert settings == {"prompt_cache_key": "a", "top_k": 3}


@pytest.mark.parametrize(
    "artifact", ["../../x", "/etc/passwd", "task_1.json/../../x", "..", "", "a/b", "out.txt", "1.json"]
)
def test_what_is_judged_is_a_file_of_the_trial_alone(artifact):
    table = f'[[verifier.judged]]\nname = "a"\nartifact = "{artifact}"\nquestion = "c"\n'
    told = faults(f'[roles.verifier]\nmodel = "a:b"\n{table}')
    assert "verifier.judged.0.artifact must be the name of a file below $EVO_TRACES_DIR that is kept" in told


MINE = ModelSpec("openai", "m", "https://gateway.example/v1", "GATEWAY_KEY")


@pytest.mark.parametrize(
    "stated",
    [
        ModelSpec("openai", "m"),
        ModelSpec("openai", "m", key_env="WORK_OPENAI_KEY"),
        ModelSpec("google", "m", key_env="GEMINI_API_KEY_2"),
        ModelSpec("mistral", "m"),
        ModelSpec("openai", "m", keyring="openai/me"),
        ModelSpec("openai", "m", key_env="LOOPTY_KEY"),
        ModelSpec("openai", "m", "https://api.openai.com/v1"),
        ModelSpec("openai", "m", "https://eu.api.openai.com/v1"),
    ],
)
def test_a_task_may_send_the_key_of_a_provider_to_that_provider(own, stated):
    assert make_key_refusal(own(""))("m", stated) is None


@pytest.mark.parametrize(
    ("stated", "sent"),
    [
        (ModelSpec("openai", "m", "https://evil.example/v1"), "OPENAI_API_KEY to https://evil.example,"),
        (ModelSpec("openai", "m", "https://evil.example:8443"), "OPENAI_API_KEY to https://evil.example:8443,"),
        (
            ModelSpec("openai", "m", "https://api.openai.com.evil.example/v1"),
            "https://api.openai.com.evil.example",
        ),
        (ModelSpec("openai", "m", "https://evilapi.openai.com.example/v1"), "evilapi"),
        (ModelSpec("openai", "m", "http://api.openai.com/v1"), "OPENAI_API_KEY to http://api.openai.com,"),
        (ModelSpec("openai", "m", "http://127.0.0.1:9/v1", "AWS_SECRET_ACCESS_KEY"), "to http://127.0.0.1:9,"),
        (ModelSpec("openai", "m", key_env="AWS_SECRET_ACCESS_KEY"), "AWS_SECRET_ACCESS_KEY to openai,"),
        (ModelSpec("openai", "m", keyring="github.com/me"), "github.com/me to openai,"),
        (ModelSpec("anthropic", "m", "https://evil.example", keyring="x/y"), "ANTHROPIC_API_KEY to https://evil"),
        (MINE, "GATEWAY_KEY to https://gateway.example,"),
    ],
)
def test_a_task_sends_no_other_key_to_no_other_server_unless_the_user_says_so(own, stated, sent):
    environ = own("")
    told = make_key_refusal(environ)("m", stated)
    assert sent in told
    assert f"under [keys] in {user_config_file(environ)}, or define the model there" in told


def test_the_user_says_where_keys_may_go(own):
    text = '[keys]\nGATEWAY_KEY = "https://gateway.example/any"\nAWS_KEY = ["openai", "http://127.0.0.1:9"]\n'
    stray = make_key_refusal(own(text))
    assert stray("m", MINE) is None
    assert stray("m", ModelSpec("openai", "m", key_env="AWS_KEY")) is None
    assert stray("m", ModelSpec("openai", "m", "http://127.0.0.1:9/v1", "AWS_KEY")) is None
    assert stray("m", ModelSpec("openai", "m", "http://127.0.0.1:99/v1", "AWS_KEY"))
    assert stray("m", ModelSpec("openai", "m", "http://gateway.example/v1", "GATEWAY_KEY")), "it is not encrypted"
    assert stray("m", ModelSpec("openai", "m", "https://gateway.example:444/v1", "GATEWAY_KEY"))


def test_a_model_of_the_users_own_file_sends_its_key_where_it_says(own):
    table = 'provider = "openai"\nmodel = "m"\nurl = "https://gateway.example/v1"\nkey_env = "GATEWAY_KEY"\n'
    stray = make_key_refusal(own(f"[models.mine]\n{table}"))
    assert stray("mine", MINE) is None
    assert stray("another", MINE)
    assert stray("mine", ModelSpec("openai", "m", "https://evil.example/v1", "GATEWAY_KEY"))


def test_where_keys_may_go_is_text(own, top):
    with pytest.raises(Misuse, match="A must be"):
        load(top, own("[keys]\nA = 3\n"))
