"""Keys from the environment and the keyring, and which servers need one."""

import sys

import keyring
import keyring.backend
import keyring.errors
import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.models.keys import key_of


class Vault(keyring.backend.KeyringBackend):
    """A keyring that holds one key."""

    priority = 1
    locked = False

    def get_password(self, service, username):
        if self.locked:
            raise keyring.errors.KeyringLocked("locked")
        return "sk-kept\n" if (service, username) == ("vault", "me") else None

    def set_password(self, service, username, password):
        raise NotImplementedError

    def delete_password(self, service, username):
        raise NotImplementedError


@pytest.fixture
def vault():
    before = keyring.get_keyring()
    vault = Vault()
    keyring.set_keyring(vault)
    yield vault
    keyring.set_keyring(before)


@pytest.mark.parametrize(
    ("provider", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("google", "GOOGLE_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("cohere", "CO_API_KEY"),
    ],
)
def test_a_provider_has_its_usual_variable(provider, variable):
    assert key_of("m", ModelSpec(provider, "x"), {variable: " sk-1\n"}) == "sk-1"
    with pytest.raises(Misuse, match=f"model 'm' needs a key: set .*{variable}"):
        key_of("m", ModelSpec(provider, "x"), {variable: " "})


def test_a_named_variable_is_the_only_one():
    spec = ModelSpec("openai", "x", key_env="MINE")
    assert key_of("m", spec, {"MINE": "sk-1", "OPENAI_API_KEY": "sk-2"}) == "sk-1"
    with pytest.raises(Misuse, match="set MINE, or name another variable in its `key_env`"):
        key_of("m", spec, {"OPENAI_API_KEY": "sk-2"})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/v1",
        "http://localhost:11434/v1",
        "http://[::1]/v1",
        "http://192.168.1.7/v1",
        "http://10.0.0.1:8000",
        "http://vllm:8000/v1",
        "http://box.local/v1",
        "http://host.docker.internal/v1",
    ],
)
def test_a_private_server_needs_no_key_and_gets_none(url):
    assert key_of("m", ModelSpec("openai", "x", url=url), {"OPENAI_API_KEY": "sk-2"}) is None
    assert key_of("m", ModelSpec("openai", "x", url=url, key_env="MINE"), {"MINE": "sk-1"}) == "sk-1"


def test_a_misspelt_provider_is_reported_before_its_missing_key():
    for provider, meant in (("opnai", "openai"), ("antropic", "anthropic"), ("script", "scripted")):
        with pytest.raises(Misuse, match=rf"^model 'm': no provider is called '{provider}'; .* '{meant}'\?$"):
            key_of("m", ModelSpec(provider, "x"), {})
    with pytest.raises(Misuse, match=r"in its `keyring`$"):
        key_of("m", ModelSpec("groq", "x"), {})


@pytest.mark.parametrize("url", ["https://gateway.example.com/v1", "https://8.8.8.8/v1", ""])
def test_any_other_server_needs_a_key(url):
    assert key_of("m", ModelSpec("openai", "x", url=url), {"OPENAI_API_KEY": "sk-2"}) == "sk-2"
    with pytest.raises(Misuse, match="needs a key"):
        key_of("m", ModelSpec("openai", "x", url=url), {})


def test_a_local_provider_needs_no_key():
    assert key_of("m", ModelSpec("ollama", "x"), {}) is None


@pytest.mark.usefixtures("vault")
def test_a_key_can_be_in_the_keyring():
    spec = ModelSpec("openai", "x", keyring="vault/me")
    assert key_of("m", spec, {}) == "sk-kept"
    assert key_of("m", spec, {"OPENAI_API_KEY": "sk-2"}) == "sk-2"


@pytest.mark.usefixtures("vault")
def test_a_keyring_without_the_key_says_how_to_add_it():
    with pytest.raises(Misuse, match="keyring set vault you, or set OPENAI_API_KEY instead"):
        key_of("m", ModelSpec("openai", "x", keyring="vault/you"), {})
    with pytest.raises(Misuse, match="must be `service/user`, not 'vault'"):
        key_of("m", ModelSpec("openai", "x", keyring="vault"), {})


def test_a_locked_keyring_is_reported(vault):
    vault.locked = True
    with pytest.raises(
        Misuse, match=r"cannot read the system's keyring \(KeyringLocked\): set OPENAI_API_KEY instead"
    ):
        key_of("m", ModelSpec("openai", "x", keyring="vault/me"), {})


def test_a_keyring_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Misuse, match=r"set OPENAI_API_KEY instead, or run .* -m pip install .*\[keyring\]"):
        key_of("m", ModelSpec("openai", "x", keyring="vault/me"), {})


@pytest.mark.parametrize("key", ['"sk-1" ; x', "sk-\n1", "sk-é", "sk-\x00"])
def test_an_impossible_key_is_refused_without_being_shown(key):
    with pytest.raises(Misuse, match="OPENAI_API_KEY has characters that no key has") as caught:
        key_of("m", ModelSpec("openai", "x"), {"OPENAI_API_KEY": key})
    assert key not in str(caught.value)
