"""Keep freed memory in the process: on Linux a large tensor is otherwise mapped and unmapped at every use."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE = 2**31 - 1


def keep_freed_memory() -> bool:
    """Tell glibc's malloc to keep and reuse freed memory; False where there is no glibc.

    Training on a CPU allocates the same large tensors at every step. By default glibc maps each from the kernel and
    gives it back, and the page faults cost up to half of a step on a virtual machine.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_M_TRIM_THRESHOLD, _LARGE))
