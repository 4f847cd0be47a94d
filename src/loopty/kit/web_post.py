"""Sends JSON to a web address of the user, whose server may be hostile, broken or slow."""

from __future__ import annotations

import http.client
import queue
import threading
import urllib.error
import urllib.request


def post_json(address: str, content: bytes, seconds: float) -> None:
    """Send it to this address and to no other one, for at most so long. Raises OSError, in one line."""
    answers: queue.SimpleQueue[OSError | None] = queue.SimpleQueue()
    # In a thread: limits of single reads do not end a server that sends "100 Continue" again and again.
    threading.Thread(target=lambda: answers.put(_fault(address, content, seconds)), daemon=True).start()
    try:
        fault = answers.get(timeout=seconds)
    except queue.Empty:
        raise OSError(f"no answer within {seconds:g} s") from None
    if fault:
        raise fault


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Redirects of a POST would be followed without the content, to wherever the server says."""

    def redirect_request(self, *_args: object) -> None:
        return None


def _fault(address: str, content: bytes, seconds: float) -> OSError | None:
    """Send it; what went wrong, without words of the server, and without the address, which may be a secret."""
    headers = {"Content-Type": "application/json", "User-Agent": "loopty"}
    try:
        request = urllib.request.Request(address, content, headers, method="POST")
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=seconds):
            return None
    except urllib.error.HTTPError as error:
        error.close()
        return OSError(f"the server answered {error.code}")
    except OSError as error:
        return error
    except (ValueError, http.client.InvalidURL):
        return OSError("its address, or one that it redirects to, is none")
    except http.client.HTTPException:
        return OSError("what answers there does not speak HTTP")
