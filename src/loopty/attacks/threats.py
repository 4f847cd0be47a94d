"""What a hostile candidate may try; every attack belongs to one of these threats."""

from __future__ import annotations

from enum import StrEnum


class Threat(StrEnum):
    """One way out of a trial."""

    WRITE = "change files outside the writable set"
    DETOUR = "reach them by links, /proc and descriptors"
    PARENTS = "move the parents of a read-only place in a writable tree"
    PLANTED = "plant a link where a later trial mounts something"
    KERNEL = "become root on the host"
    READ = "read homes, secrets and other processes"
    NETWORK = "reach services, sockets and the internet"
    CALLS = "use system calls that no trial needs"
    OTHERS = "signal, trace or read processes of the host"
    FORKS = "start processes without end"
    SURVIVORS = "leave a process behind"
    MEMORY = "take more memory than the bound"
    DISK = "take more disk than the bound"
    OUTPUT = "flood the output"
    BETWEEN_CALLS = "run between the calls of a benchmark"
    GIT = "have the host's git run code"
    HARVEST = "leave links, pipes, devices and floods for the host to read"
    CLONE = "have loopty follow links in a clone"
