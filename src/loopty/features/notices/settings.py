"""The table `[notify]` of the user's config file: where notices go."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.features.notices.notices import NoticeSettings
from loopty.taskfile.model_tables import user_config_file
from loopty.taskfile.schema import Checker, parse_toml, raise_faults, read_text


def user_notice_settings(environ: Mapping[str, str]) -> NoticeSettings:
    """Find where the user wants notices. Raises Misuse with every fault and its line."""
    path = user_config_file(environ)
    try:
        text = read_text(path, str(path))
    except OSError:
        return NoticeSettings()
    checker = Checker()
    settings = checker.read_table(NoticeSettings, parse_toml(text, str(path)).get("notify", {}), ("notify",))
    raise_faults(checker, text, str(path))
    return settings
