"""Running one job in a process of its own (:mod:`~pytest_llmprops.reports.view.worker`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

#: the longest line that a worker writes, in bytes: the files of a report, or the accuracies of one run
_LONGEST = 16_000_000


async def work(job: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the lines that a worker writes about ``job``. The worker ends if the iteration does.

    A worker that fails yields a last line with ``error``.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: no module of the current folder replaces one of Python.
        sys.executable,
        "-P",
        "-m",
        "pytest_llmprops.reports.view.worker",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=_LONGEST,
        # Ctrl-C ends this process, which then ends the worker.
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    try:
        process.stdin.write(json.dumps(job).encode())
        process.stdin.close()
        async for line in process.stdout:
            yield json.loads(line)
        if await process.wait():
            said = (await errors).decode("utf-8", "replace").strip().splitlines()
            yield {"error": said[-1] if said else f"the worker ended with status {process.returncode}"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # The pipes are closed when both have ended; the loop may end after this.
        await asyncio.gather(errors, process.wait(), return_exceptions=True)
