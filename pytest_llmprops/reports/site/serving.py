"""Serving the page on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import NamedTuple

import uvicorn

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.reports.site.app import Application
from pytest_llmprops.reports.site.guard import Guard
from pytest_llmprops.reports.site.hub import Hub, Watch
from pytest_llmprops.reports.site.pages import Pages
from pytest_llmprops.reports.site.rows import id_of

#: time for open connections to end after Ctrl-C
LAST_SECONDS = 1


class Shown(NamedTuple):
    """What the page shows: the runs in some folders.

    :param places: folders whose subfolders are runs. :param opened: one of the runs, whose report is opened.
    """

    places: tuple[Path, ...]
    opened: Path | None = None


class Server(uvicorn.Server):
    """The server of the page.

    :param listening: a socket of 127.0.0.1 that listens.
    """

    def __init__(self, shown: Shown, listening: socket.socket) -> None:
        self._hub, self._listening = Hub(Watch(shown.places), Pages()), listening
        self._loop: asyncio.AbstractEventLoop | None = None
        start = "" if shown.opened is None else f"reports/{id_of(shown.opened)}/run/"
        guard = Guard(Application(self._hub).app, listening.getsockname()[1], start)
        #: what the user opens; :attr:`address_once` leads there once
        self.address, self.address_once = guard.address, guard.address_once
        config = uvicorn.Config(
            guard,
            log_config=None,
            access_log=False,
            log_level="critical",
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        super().__init__(config)

    async def run_until_stopped(self) -> None:
        """Serve until :meth:`stop`, Ctrl-C or SIGTERM."""
        self._loop = asyncio.get_running_loop()
        await self.serve(sockets=[self._listening])

    def stop(self) -> None:
        """End, from any thread: also the messages to open pages, which would keep their connections."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._hub.close)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End because of a signal."""
        self.stop()
        super().handle_exit(sig, frame)


def serve(shown: Shown, port: int, say: Callable[[str], None], *, opens_browser: bool) -> None:
    """Serve the page on 127.0.0.1 until Ctrl-C or SIGTERM.

    :param port: 0 for a free one. :param say: prints a line for the user.
    :raises UsageError: if the port cannot be used.
    """
    with listening_on(port) as listening:
        server = Server(shown, listening)
        say(f"llmprops view: {server.address} (Ctrl-C ends it)")
        if opens_browser:
            # The socket listens already, so the browser waits for its answer. Some browsers end with their window.
            Thread(target=_open_browser, args=(server.address_once, say), daemon=True).start()
        try:
            asyncio.run(server.run_until_stopped())
        except KeyboardInterrupt:
            # The server has ended; uvicorn raises the signal again.
            return


def listening_on(port: int) -> socket.socket:
    """Return a socket of 127.0.0.1 that listens; 0 is a free port.

    :raises UsageError: if the port cannot be used.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # A port can be used again at once after Ctrl-C.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else "is not a port number"
        raise UsageError(f"--port {port}: {why}; leave it out to use a free one") from None
    return listening


def _open_browser(address: str, say: Callable[[str], None]) -> None:
    if not _has_browser() or not webbrowser.open(address):
        say("llmprops view: no browser was found; open the address yourself")


def _has_browser() -> bool:
    """Return True if a browser with windows may be there. One in the terminal would hide the address."""
    if sys.platform == "darwin" or "BROWSER" in os.environ:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
