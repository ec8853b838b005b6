"""The processes that claim requests."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path


def host_name() -> str:
    """Return a name of this machine since its last start; different for containers with other process numbers."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Owner:
    """This process, as the owner of claims."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    host: str = field(default_factory=host_name)
    pid: int = field(default_factory=os.getpid)

    def knows_ended(self, host: str, pid: int) -> bool:
        """Return whether the process ``pid`` ran on this machine and has ended; False if this process cannot tell."""
        return host == self.host and has_ended(pid)


def has_ended(pid: int) -> bool:
    """Return whether a process of this machine has ended; False if this process cannot tell."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    # The number of a killed process is taken until its parent asks for its status, which the first process of a
    # container may do late or never.
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].startswith(b"Z")
    return False
