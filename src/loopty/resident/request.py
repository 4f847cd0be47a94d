"""What a client asks of the resident process, as bytes: a length, then fields that end with a zero byte.

The client's standard streams and its directory come with it, as descriptors.
"""

import os

VERB, STOP, TOOL = b"verb", b"stop", b"tool"
"""The kinds of requests. The arguments of a tool call are a directory of the repository and the call, as JSON."""
ACCEPTED, GO = b"+", b"!"
"""A client that reads ACCEPTED answers GO and leaves the verb to the other side; before, it may run it itself."""
EXIT, SIGNAL = b"exit", b"signal"
"""How the verb ended, with a number: the last line of the answer."""
DESCRIPTORS = 4
"""Standard input, output, error, and the working directory."""
LENGTH_BYTES = 8
LARGEST_BYTES = 8 << 20


class VerbRequest:
    """One request. A zero byte occurs in no argument, variable or path."""

    def __init__(
        self,
        kind: bytes,
        git_dir: bytes,
        surroundings: bytes,
        umask: int = 0,
        args: list[bytes] | None = None,
        variables: list[bytes] | None = None,
    ) -> None:
        self.kind, self.git_dir, self.surroundings, self.umask = kind, git_dir, surroundings, umask
        self.args, self.variables = args or [], variables or []

    def to_bytes(self) -> bytes:
        """The request as it is sent: its length first."""
        counts = b"%d" % self.umask, b"%d" % len(self.args)
        fields = [self.kind, self.git_dir, self.surroundings, *counts, *self.args, *self.variables]
        body = b"".join(field + b"\0" for field in fields)
        return len(body).to_bytes(LENGTH_BYTES, "big") + body

    @classmethod
    def from_bytes(cls, body: bytes) -> "VerbRequest":
        """The request in these bytes. Raises ValueError where they are none."""
        fields = body.split(b"\0")
        if len(fields) < 6 or fields.pop():
            raise ValueError("no request")
        kind, git_dir, surroundings, umask, count = fields[:5]
        end = 5 + int(count)
        if not 5 <= end <= len(fields) or not 0 <= int(umask, 10) <= 0o777:
            raise ValueError("no request")
        return cls(kind, git_dir, surroundings, int(umask), fields[5:end], fields[end:])

    def apply_environment(self) -> None:
        """Make the client's environment this process's own, and leave nothing of the former one."""
        os.environb.clear()
        for variable in self.variables:
            name, _, value = variable.partition(b"=")
            if name:
                os.environb[name] = value
