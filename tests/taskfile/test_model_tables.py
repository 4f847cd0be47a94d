"""Models: defined in the task file or in the user's config file, and named by roles."""

from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, RoleBudget, Roles, VerifierSpec
from loopty.domain.task import PluginChoice
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
def write_config(tmp_path):
    """Writes the user's config file and returns the environment in which loopty finds it."""
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


def test_a_model_is_defined_and_named_by_roles():
    task = parse(
        TASK + FAST + "temperature = 0.5\nsettings = { seed = 3, reasoning_effort = 'low' }\n"
        '[roles.evolver]\nmodel = "fast"\ntokens = 1000\n[roles.verifier]\nmodel = "anthropic:claude"\n'
    )
    assert task.models["fast"].temperature == 0.5
    assert task.models["fast"].settings == {"seed": 3, "reasoning_effort": "low"}
    assert (task.roles.evolver.model, task.roles.evolver.tokens) == ("fast", 1000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[models.a]\nmodel = "m"\n', "models.a.provider is missing"),
        ('[models.a]\nprovider = "openai"\n', "models.a.model is missing"),
        ('[models.a]\nprovider = "scripted"\n', "models.a.file is missing: the script of replies"),
        ('[models.a]\nprovider = "recorded"\n', "models.a.file is missing: the folder of recorded calls"),
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
        (FAST + "input_usd = 1\n", "models.fast.output_usd is missing: give input_usd and output_usd together"),
        (FAST + "cached_usd = 1\n", "models.fast.input_usd is missing: give input_usd and output_usd together"),
        (FAST + "retries = -1\n", "models.fast.retries must be at least 0"),
        (FAST + "kee_env = 'X'\n", "models.fast.kee_env is not a known key; did you mean 'key_env'?"),
        (
            '[roles.evolver]\nmodel = "quick"\n',
            "roles.evolver.model is 'quick', which is not a known model: add [models.quick]",
        ),
        (FAST + '[roles.user]\nmodel = "fats"\n', "which is not a known model: known are fast; add [models.fats]"),
        (
            '[verifier]\nreview = "flag"\n',
            'verifier.review needs a model: name one, as in [roles.verifier] model = "…"',
        ),
        (
            FAST + '[roles.evolver]\nmodel = "fast"\ntrial_tokens = 9\n',
            "roles.evolver.trial_tokens is only for [roles.user]: trials call no other role's model",
        ),
        ("[roles.verifier]\ntrial_money_usd = 0.1\n", "roles.verifier.trial_money_usd is only for [roles.user]"),
        (
            FAST + '[roles.user]\nmodel = "fast"\nmodels = { slow = 1 }\n',
            "roles.user.models.slow is 'slow', which is not a known model",
        ),
        (
            FAST + '[roles.verifier]\nmodel = "fast"\nmodels = { "openai:m" = -1 }\n',
            "is -1.0: a weight is 0 or more",
        ),
        (
            FAST + "[roles.verifier]\nmodels = { fast = 1 }\n",
            'roles.verifier.models comes beside a first model: add model = "…"',
        ),
        ("[roles.user]\ntrial_tokens = 0\n", "roles.user.trial_tokens must be above 0"),
        ('[verifier]\nreview = "flag"\n', "verifier.review needs a model"),
        ("[roles]\nshares = { evolver = 0.5 }\n", "roles.shares divide tokens or money_usd of [budget]"),
        ("[roles]\nshares = { evolvr = 0.5 }\n", "roles.shares.evolvr is no role: name evolver, user, verifier"),
        ("[roles]\nshares = { user = 0.7, evolver = 0.7 }\n", "roles.shares add up to more than 1"),
        ("[roles]\nshares = { user = 2 }\n", "roles.shares.user is 2: a share is more than 0 and at most 1"),
        ('[roles]\nallocation = "adaptive"\n', "roles.allocation needs shares to start from"),
        (
            '[[verifier.judged]]\nname = "a"\nartifact = "b"\nquestion = "c"\n',
            "verifier.judged needs a model",
        ),
    ],
)
def test_each_fault_has_its_line_and_a_remedy(text, message):
    reported = faults(text)
    assert message in reported
    assert reported.startswith("loopty.toml:")


def test_a_misspelt_provider_is_one_fault():
    assert faults('[models.a]\nprovider = "opnai"\n').count("\n") == 0


def test_models_that_are_not_tables_are_a_fault():
    with pytest.raises(Misuse, match="models must be tables"):
        parse("models = 3\n" + TASK)


@pytest.mark.parametrize(
    ("proposer", "key"),
    [
        (PluginChoice("llm-code"), "proposer.kind"),
        (PluginChoice("llm-parameters"), "proposer.kind"),
        (PluginChoice("ladder", {"rungs": [{"kind": "grid"}, {"kind": "llm-code"}]}), "proposer.rungs.1.kind"),
    ],
)
def test_a_proposer_that_calls_a_model_needs_one_for_the_evolver(proposer, key):
    checker = Checker()
    check_roles(Roles(), VerifierSpec(), proposer, (), checker)
    (fault,) = checker.faults
    assert fault.key == key
    assert fault.message.endswith('needs a model: name one, as in [roles.evolver] model = "…"')
    checker = Checker()
    check_roles(Roles(evolver=RoleBudget("openai:m")), VerifierSpec(), proposer, (), checker)
    assert checker.faults == []


def test_a_model_in_the_users_config_file_works_for_every_task(write_config, top):
    environ = write_config(FAST)
    task = load(top, environ)
    assert task.models == {"fast": ModelSpec("openai", "m")}
    (top / "loopty.toml").write_text(TASK + '[roles.evolver]\nmodel = "fast"\n')
    assert load(top, environ).roles.evolver.model == "fast"


def test_a_model_of_the_task_file_wins_over_the_users(write_config, top):
    (top / "loopty.toml").write_text(TASK + FAST.replace('"m"', '"theirs"'))
    assert load(top, write_config(FAST)).models["fast"].model == "theirs"


def test_the_users_models_do_not_change_the_criteria(write_config, top):
    (top / "loopty.toml").write_text(TASK + FAST + '[roles.user]\nmodel = "fast"\n')
    alone = load(top, {"XDG_CONFIG_HOME": str(top / "none")}).criteria("b", "d")
    assert (
        load(top, write_config('[models.other]\nprovider = "openai"\nmodel = "m"\n')).criteria("b", "d") == alone
    )


def test_further_models_of_the_user_role_and_their_weights_are_part_of_the_criteria():
    user = TASK + FAST + '[roles.user]\nmodel = "fast"\n'
    stated = [user, user + 'models = { "openai:m" = 1 }\n', user + 'models = { "openai:m" = 2 }\n']
    assert len({parse(text).criteria("b", "d")["user model"] for text in stated}) == 3


def test_the_allowance_of_a_trial_is_part_of_the_criteria():
    user = TASK + FAST + '[roles.user]\nmodel = "fast"\n'
    alone = parse(user).criteria("b", "d")
    assert parse(user + "tokens = 9\n").criteria("b", "d") == alone
    bounded = [parse(user + f"trial_tokens = {tokens}\n").criteria("b", "d") for tokens in (9, 10)]
    assert bounded[0] != bounded[1] != alone
    assert bounded[0].items() >= alone.items()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models.a]\n", ":1: models.a.provider is missing"),
        ("\n" + FAST + "retries = 'x'\n", ":5: models.fast.retries must be a whole number"),
        ("[roles.evolver]\nmodel = 'a'\n", ":1: roles is not a known key; known here: models"),
        ("[models", "is not valid TOML"),
        (b"# \xff\n", ":1: holds bytes that are not UTF-8"),
    ],
)
def test_a_fault_in_the_users_config_file_has_that_file_and_line(write_config, top, text, message):
    environ = write_config(text)
    with pytest.raises(Misuse) as caught:
        load(top, environ)
    assert str(caught.value).startswith(str(user_config_file(environ)))
    assert message in str(caught.value)


def test_a_file_named_in_the_users_config_file_is_found_beside_it(write_config):
    environ = write_config(
        "[models.a]\nprovider = 'scripted'\nfile = 'replies.jsonl'\n"
        "[models.b]\nprovider = 'recorded'\nfile = '/r'\n"
    )
    models = user_config_models(environ)
    assert models["a"].file == str(user_config_file(environ).parent / "replies.jsonl")
    assert models["b"].file == "/r"


def test_the_users_config_file_follows_the_xdg_specification(tmp_path):
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
def test_a_url_is_a_plain_address_without_secrets(url):
    reported = faults(FAST + f'url = "{url}"\n')
    assert "models.fast.url must be an address like https://HOST/v1" in reported
    assert "hunter22" not in reported


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("api_key", "keys must not be in a file"),
        ("X-Api-Key", "keys must not be in a file"),
        ("Authorization", "keys must not be in a file"),
        ("extra_headers", "keys must not be in a file"),
        ("client_secret", "keys must not be in a file"),
        ("max_completion_tokens", "which loopty sets itself"),
        ("model", "which loopty sets itself"),
        ("n", "which loopty sets itself"),
    ],
)
def test_settings_hold_neither_keys_nor_anything_that_bypasses_the_caps(name, message):
    reported = faults(FAST + f'settings = {{ "{name}" = "hunter22" }}\n')
    assert message in reported
    assert "hunter22" not in reported


@pytest.mark.parametrize("name", ["api_key", "key", "OPENAI_API_KEY", "password"])
def test_a_key_in_the_table_of_a_model_is_a_fault_with_the_remedy(name):
    reported = faults(FAST + f'{name} = "hunter22"\n')
    message = (
        f"models.fast.{name} must not be in a file: set the provider's usual variable, or name one in `key_env`"
    )
    assert reported.endswith(message)
    assert "hunter22" not in reported


def test_settings_that_only_sound_like_keys_are_settings():
    settings = parse(TASK + FAST + 'settings = { prompt_cache_key = "a", top_k = 3 }\n').models["fast"].settings
    assert settings == {"prompt_cache_key": "a", "top_k": 3}


@pytest.mark.parametrize(
    "artifact", ["../../x", "/etc/passwd", "task_1.json/../../x", "..", "", "a/b", "out.txt", "1.json"]
)
def test_a_judged_artifact_must_be_a_file_of_the_trial(artifact):
    table = f'[[verifier.judged]]\nname = "a"\nartifact = "{artifact}"\nquestion = "c"\n'
    reported = faults(f'[roles.verifier]\nmodel = "a:b"\n{table}')
    assert "verifier.judged.0.artifact must be a file name of the form task_NAME.json" in reported


MINE = ModelSpec("openai", "m", "https://gateway.example/v1", "GATEWAY_KEY")


@pytest.mark.parametrize(
    "model",
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
def test_a_task_may_send_the_key_of_a_provider_to_that_provider(write_config, model):
    assert make_key_refusal(write_config(""))("m", model) is None


@pytest.mark.parametrize(
    ("model", "sent"),
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
def test_a_task_sends_keys_only_to_their_provider_unless_the_user_allows_more(write_config, model, sent):
    environ = write_config("")
    refusal = make_key_refusal(environ)("m", model)
    assert sent in refusal
    assert f"under [keys] in {user_config_file(environ)}, or define the model there" in refusal


def test_the_user_decides_where_keys_may_go(write_config):
    text = '[keys]\nGATEWAY_KEY = "https://gateway.example/any"\nAWS_KEY = ["openai", "http://127.0.0.1:9"]\n'
    refusal = make_key_refusal(write_config(text))
    assert refusal("m", MINE) is None
    assert refusal("m", ModelSpec("openai", "m", key_env="AWS_KEY")) is None
    assert refusal("m", ModelSpec("openai", "m", "http://127.0.0.1:9/v1", "AWS_KEY")) is None
    assert refusal("m", ModelSpec("openai", "m", "http://127.0.0.1:99/v1", "AWS_KEY"))
    assert refusal("m", ModelSpec("openai", "m", "http://gateway.example/v1", "GATEWAY_KEY")), (
        "it is not encrypted"
    )
    assert refusal("m", ModelSpec("openai", "m", "https://gateway.example:444/v1", "GATEWAY_KEY"))


def test_a_model_of_the_users_config_file_may_send_its_key_to_its_server(write_config):
    table = 'provider = "openai"\nmodel = "m"\nurl = "https://gateway.example/v1"\nkey_env = "GATEWAY_KEY"\n'
    refusal = make_key_refusal(write_config(f"[models.mine]\n{table}"))
    assert refusal("mine", MINE) is None
    assert refusal("another", MINE)
    assert refusal("mine", ModelSpec("openai", "m", "https://evil.example/v1", "GATEWAY_KEY"))


def test_the_servers_for_keys_must_be_text(write_config, top):
    with pytest.raises(Misuse, match="A must be"):
        load(top, write_config("[keys]\nA = 3\n"))
