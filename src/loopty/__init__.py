"""Autonomous experimentation loops for code. Start with `optimize`, `evolve` or `Campaign`."""

from loopty.version import __version__

TYPE_CHECKING = False  # `typing` takes as long to import as all else that `loopty --version` needs

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.study.doors import create, evolve, optimize
    from loopty.study.doors import open_study as open
    from loopty.study.results import FinishedTrial
    from loopty.study.spaces import Categorical, Float, Int
    from loopty.study.study import Study, StudyOver
    from loopty.study.trial import Trial, TrialPruned

__all__ = [
    "Campaign",
    "Categorical",
    "FinishedTrial",
    "Float",
    "Int",
    "Study",
    "StudyOver",
    "Trial",
    "TrialPruned",
    "__version__",
    "create",
    "evolve",
    "open",
    "optimize",
]
_PLACES = {
    "Campaign": "loopty.campaign.campaign",
    "Categorical": "loopty.study.spaces",
    "FinishedTrial": "loopty.study.results",
    "Float": "loopty.study.spaces",
    "Int": "loopty.study.spaces",
    "Study": "loopty.study.study",
    "StudyOver": "loopty.study.study",
    "Trial": "loopty.study.trial",
    "TrialPruned": "loopty.study.trial",
    "create": "loopty.study.doors",
    "evolve": "loopty.study.doors",
    "open": "loopty.study.doors",
    "optimize": "loopty.study.doors",
}


def __getattr__(name: str) -> object:
    # Imported when it is asked for: `loopty --version` starts without it.
    if name not in _PLACES:
        raise AttributeError(f"module 'loopty' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), "open_study" if name == "open" else name)


def __dir__() -> list[str]:
    return __all__
