"""Keeps OpenSSL from giving back its memory when a copy ends, which the end of the process does anyway.

It would write to some hundred pages that the copy shares until then, which takes a millisecond.
"""

# For Python 3.9 and newer.
from __future__ import annotations

import ctypes
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType

_USERS = ("_hashlib", "_ssl")
_WITHOUT_EXIT_FUNCTION = 0x00080000
"""OPENSSL_INIT_NO_ATEXIT"""


class OpenSslExit:
    """As long as it is entered, the first import that loads OpenSSL starts it without its exit function."""

    def __init__(self) -> None:
        self._is_started = False

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self in sys.meta_path:  # an import may change it
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find nothing, but start OpenSSL where the module will use it."""
        if name in _USERS and not self._is_started:
            self._is_started = True
            others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
            specs = (finder.find_spec(name, path, target) for finder in others)
            spec = next((one for one in specs if one is not None), None)
            _start_openssl(spec.origin if spec is not None else None)
        return None


def _start_openssl(user: str | None) -> None:
    """Start the OpenSSL that this extension module is linked with."""
    if user is None:
        return
    try:
        start = ctypes.CDLL(user).OPENSSL_init_crypto
    except (OSError, AttributeError):
        return  # part of the interpreter, or another library
    start.argtypes = (ctypes.c_uint64, ctypes.c_void_p)
    start(_WITHOUT_EXIT_FUNCTION, None)
