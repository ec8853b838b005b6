"""Who may talk to the local server: the pages that it served itself, by a random token in their address."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: No other page may show these pages. The address has the token, so it is not
#: sent to other sites; requests within the site keep their origin, which is checked.
HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: each page has a policy of its own; this is the part that a page cannot have
POLICY = "frame-ancestors 'none'"


class Guard:
    """An ASGI application that passes requests with the token on, and refuses all others.

    The token is in the path, not in a cookie: browsers send the cookies of 127.0.0.1 to the servers of all its ports.
    A wrong Host header is that of another site whose name leads to this machine (DNS rebinding). Requests that change
    something must come from a page of this server.

    The address that starts the browser has a second token, because other users of the machine see the command line of
    a process. It leads to the real address once.

    :param start: the path that it leads to.
    """

    def __init__(self, app: ASGIApp, port: int, start: str = "") -> None:
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
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers["Content-Security-Policy"] = POLICY
            await send(message)

        response = self._answer(scope)
        if response is None:
            scope = {**scope, "root_path": f"/{self._token}"}
            await self._app(scope, receive, send_with_headers)
        else:
            await response(scope, receive, send_with_headers)

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
        if scope["method"] not in ("GET", "HEAD"):
            origins = {f"http://{host}" for host in self._hosts}
            if headers.get("origin", "") not in origins:
                return PlainTextResponse("This request is from another page.\n", 403)
        return None
