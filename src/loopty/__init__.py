"""Autonomous experimentation loops for code. `Campaign` is the one class that Python callers need."""

from loopty.version import __version__

TYPE_CHECKING = False  # `typing` takes as long to import as all else that `loopty --version` needs

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign

__all__ = ["Campaign", "__version__"]


def __getattr__(name: str) -> object:
    # Imported when it is asked for: `loopty --version` starts without it.
    if name == "Campaign":
        from loopty.campaign.campaign import Campaign

        return Campaign
    raise AttributeError(f"module 'loopty' has no attribute {name!r}")
