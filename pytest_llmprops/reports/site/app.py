"""The local server of ``llmprops view``: the page of a site with its live part, reports, and review marks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pytest_llmprops.core.errors import LLMPropsError, UsageError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.site.live import Hub, Watch
from pytest_llmprops.reports.site.marks import save_mark, saved_marks
from pytest_llmprops.reports.site.pages import PAGE, CannotBuild, Pages, id_of

#: the largest review mark, in bytes
LARGEST = 64_000
#: time for open connections to end after Ctrl-C
LAST_SECONDS = 1
#: No other page may show these pages. The address has the token, so it is not
#: sent to other sites; requests within the site keep their origin, which is checked.
HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    # Each page has a policy of its own; this is the part that a page cannot have.
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class Shown(NamedTuple):
    """What the page shows: the runs in some folders.

    :param places: folders whose subfolders are runs. :param opened: one of the runs, whose report is opened.
    """

    places: tuple[Path, ...]
    opened: Path | None = None


class Application:
    """What the server answers."""

    def __init__(self, shown: Shown) -> None:
        self._pages = Pages()
        self._hub = Hub(Watch(shown.places), self._pages)
        report = "/reports/{run}/run"
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/events", self._events),
                Route(f"{report}/reviews", self._reviews),
                Route(f"{report}/reviews", self._save, methods=["POST"]),
                Route(f"{report}/", self._start),
                Route(f"{report}/{PAGE}", self._report),
            ],
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        steps = asyncio.create_task(self._hub.run())
        try:
            yield
        finally:
            steps.cancel()
            await asyncio.gather(steps, return_exceptions=True)
            await self._pages.close()

    async def _index(self, request: Request) -> Response:
        try:
            return HTMLResponse(await self._pages.index())
        except CannotBuild as error:
            return _text(f"The page could not be built: {error}", 500)

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._hub.messages(), media_type="text/event-stream")

    async def _folder(self, request: Request) -> Path | None:
        """Return the folder of the run that a request names; None if it is not there when all runs were read."""
        key, watch = request.path_params["run"], self._hub.watch
        if key not in watch.runs:
            await self._hub.read.wait()
        run = watch.runs.get(key)
        return None if run is None else run.folder

    async def _start(self, request: Request) -> Response:
        return RedirectResponse(f"{request.url.path}{PAGE}", 303)

    async def _report(self, request: Request) -> Response:
        """Return a report, which is built if the record changed since; this may take a minute."""
        folder = await self._folder(request)
        if folder is None:
            return _text("This run is not there any more: its folder was moved or deleted.", 404)
        try:
            return FileResponse(await self._pages.report(folder))
        except CannotBuild as error:
            return _text(f"The report could not be built: {error}", 500)

    async def _reviews(self, request: Request) -> Response:
        folder = await self._folder(request)
        if folder is None:
            return _problem("this run is not there any more", 404)
        try:
            return JSONResponse(await asyncio.to_thread(saved_marks, folder))
        except LLMPropsError as error:
            return _problem(str(error), 409)

    async def _save(self, request: Request) -> Response:
        """Save a mark; the answer has it as it was saved, or one line that says why it was not."""
        folder = await self._folder(request)
        if folder is None:
            return _problem("this run is not there any more", 404)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return _problem("the mark is too long", 413)
        try:
            return JSONResponse(await asyncio.to_thread(save_mark, json.loads(body), folder))
        except LLMPropsError as error:
            return _problem(str(error), 400)
        except (ValueError, RecursionError) as error:
            return _problem(f"the mark is not JSON: {error}", 400)
        except OSError as error:
            return _problem(f"review.jsonl could not be written: {error.strerror or error}", 507)


def _text(text: str, status: int) -> Response:
    return PlainTextResponse(f"{one_line(text, 400)}\n", status)


def _problem(text: str, status: int) -> Response:
    return JSONResponse({"error": one_line(text, 400)}, status)


class Guard:
    """An ASGI application that passes requests with the token on, and refuses all others.

    The token is in the path, not in a cookie: browsers send the cookies of 127.0.0.1 to the servers of all its ports.
    A wrong Host header is that of another site whose name leads to this machine (DNS rebinding). Requests that change
    something must come from a page of this server.

    The address that starts the browser has a second token, because other users of the machine see the command line of
    a process. It leads to the real address once.

    :param start: the path that it leads to.
    """

    def __init__(self, app: ASGIApp, port: int, start: str) -> None:
        self._app, self._start = app, start
        self._token, self._once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.address = f"http://127.0.0.1:{port}/{self._token}/"
        self.address_once = f"http://127.0.0.1:{port}/{self._once}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        response = self._answer(scope)
        if response is None:
            scope = {**scope, "root_path": f"/{self._token}"}
        await (response or self._app)(scope, receive, send_with_headers)

    def _answer(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that is not passed on."""
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self._hosts:
            return PlainTextResponse("This server answers only as 127.0.0.1 or localhost.\n", 403)
        token = scope["path"].split("/")[1]
        if self._once and secrets.compare_digest(token.encode(), self._once.encode()):
            self._once = ""
            return RedirectResponse(f"/{self._token}/{self._start}", 303)
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that llmprops view has printed.\n", 403)
        if scope["path"] == f"/{self._token}":
            return RedirectResponse(f"/{self._token}/", 303)
        origins = {f"http://{host}" for host in self._hosts}
        if scope["method"] not in ("GET", "HEAD") and headers.get("origin", "") not in origins:
            return PlainTextResponse("This request is from another page.\n", 403)
        return None


class Server(uvicorn.Server):
    """The server of the page. It ends when ``should_exit`` is set, and on Ctrl-C and SIGTERM.

    :param listening: a socket of 127.0.0.1 that listens.
    """

    def __init__(self, shown: Shown, listening: socket.socket) -> None:
        self._listening = listening
        start = "" if shown.opened is None else f"reports/{id_of(shown.opened)}/run/"
        guard = Guard(Application(shown).app, listening.getsockname()[1], start)
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
            # Open pages keep their connections for messages.
            timeout_graceful_shutdown=LAST_SECONDS,
        )
        super().__init__(config)

    def run_until_stopped(self) -> None:
        """Serve, and return at the end."""
        asyncio.run(self.serve(sockets=[self._listening]))


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
        # The server has ended when uvicorn raises the signal again.
        with contextlib.suppress(KeyboardInterrupt):
            server.run_until_stopped()


def listening_on(port: int) -> socket.socket:
    """Return a socket of 127.0.0.1 that listens; 0 is a free port.

    :raises UsageError: if the port cannot be used.
    """
    why = "is not a port number"
    if 0 <= port <= 0xFFFF:
        try:
            return socket.create_server(("127.0.0.1", port), backlog=128)
        except OSError as error:
            # The text of the error names the address, too.
            why = os.strerror(error.errno or 0)
    raise UsageError(f"--port {port}: {why}; leave it out to use a free one")


def _open_browser(address: str, say: Callable[[str], None]) -> None:
    # A browser in the terminal would hide the address.
    has_windows = sys.platform == "darwin" or {"BROWSER", "DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
    if not has_windows or not webbrowser.open(address):
        say("llmprops view: no browser was found; open the address yourself")
