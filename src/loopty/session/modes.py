"""Which modes are on: the environment, else the repository's setting, else the user's default, else on.

The repository's setting is in its state, not in the task file: how the user's agent works is not a clone's to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.task_tables import AgentMode, ModeSetting, ModeSource
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.session.trust import user_state_folder

_FILE = "modes.json"
_WORDS = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False}


def variable_of(mode: AgentMode) -> str:
    """Name the environment variable that is an instruction for one session."""
    return f"LOOPTY_{mode.name}"


class ModeSettings:
    """The modes of agents that work in one repository."""

    def __init__(self, state: SafeFolder, environ: Mapping[str, str]) -> None:
        self._environ = environ
        folder = user_state_folder(environ)
        self._files = {
            ModeSource.WORKSPACE: state.file(_FILE),
            ModeSource.USER: SafeFolder(folder.parent, (folder.name,)).file(_FILE),
        }

    def setting(self, mode: AgentMode) -> ModeSetting:
        """Read the mode's setting. Raises Misuse for an instruction that is neither on nor off."""
        if word := self._environ.get(variable_of(mode), "").lower():
            if word not in _WORDS:
                raise Misuse(f"{variable_of(mode)} is {word[:40]!r}: set it to on or off")
            return ModeSetting(mode, _WORDS[word], ModeSource.INSTRUCTION)
        for source, file in self._files.items():
            is_on = _read(file).get(mode)
            if isinstance(is_on, bool):
                return ModeSetting(mode, is_on, source)
        return ModeSetting(mode, True, ModeSource.NOBODY)

    def is_on(self, mode: AgentMode) -> bool:
        return self.setting(mode).is_on

    def save(self, mode: AgentMode, is_on: bool | None, source: ModeSource) -> None:
        """Set a mode for this repository or for all of the user's; None: what applies without a setting."""
        file = self._files[source]
        file.folder.root.mkdir(parents=True, exist_ok=True)
        saved = {name: value for name, value in _read(file).items() if name != mode}
        if is_on is not None:
            saved[mode] = is_on
        file.write(json.dumps(saved).encode())

    def inherited_off(self) -> list[ModeSetting]:
        """List the modes that are off although no one said so for this session."""
        settings = map(self.setting, AgentMode)
        return [found for found in settings if not found.is_on and found.source is not ModeSource.INSTRUCTION]


def _read(file: SafeFile) -> dict[str, object]:
    try:
        saved = json.loads(file.read())
    except (FileNotFoundError, ValueError):
        return {}
    return saved if isinstance(saved, dict) else {}
