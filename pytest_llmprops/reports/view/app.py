"""The ASGI application of ``llmprops view``: the list of runs, their reports, and their review marks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import threading
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

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
from pytest_llmprops.core.records import Review, VerdictKey, VerdictRecord
from pytest_llmprops.core.texts import one_line, visible
from pytest_llmprops.records.files import from_plain
from pytest_llmprops.reports.page.html import ASSETS as REPORT_ASSETS
from pytest_llmprops.reports.view.built import Build, Builds
from pytest_llmprops.reports.view.hub import Hub
from pytest_llmprops.runs.catalog import FileIdentity, file_identity
from pytest_llmprops.runs.integrity import VERDICTS
from pytest_llmprops.runs.json_lines import JsonLines
from pytest_llmprops.runs.reader import read_facts
from pytest_llmprops.runs.record import utc_now
from pytest_llmprops.runs.reviews import append_review, read_reviews, shown_review

# Who may talk to the local server: the pages that it served itself, by a random token in their address.

#: Nothing is loaded from elsewhere, and no other page may show these pages. The address has the token, so it is not
#: sent to other sites; requests within the site keep their origin, which is checked.
HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: the policy of the server's own pages; a report has one of its own, and gets only the last part
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "frame-ancestors 'none'"


class Guard:
    """An ASGI application that passes requests with the token on, and refuses all others.

    The token is in the path, not in a cookie: browsers send the cookies of 127.0.0.1 to the servers of all its ports.
    A wrong Host header is that of another site whose name leads to this machine (DNS rebinding). Requests that change
    something must come from a page of this server.

    :param once: a second token for the address that starts the browser, because other users of the machine see the
        command line of a process. It leads to the real address once.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
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
                headers.setdefault("Content-Security-Policy", POLICY)
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
            return RedirectResponse(f"/{self._token}/", 303)
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that llmprops view has printed.\n", 403)
        if scope["path"] == f"/{self._token}":
            return RedirectResponse(f"/{self._token}/", 303)
        if scope["method"] not in ("GET", "HEAD"):
            origins = {f"http://{host}" for host in self._hosts}
            if headers.get("origin", "") not in origins:
                return PlainTextResponse("This request is from another page.\n", 403)
        return None


#: the longest note, in characters; the page's field has the same limit
LONGEST_NOTE = 2000
#: runs whose verdicts' keys are kept: 30 bytes per verdict
_KEPT = 8


def saved_marks(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the marks beside these runs, as the page has them.

    :raises DataError: if a record or its marks cannot be read.
    """
    return [
        shown_review(review)
        for folder in folders
        for review in read_reviews(folder, read_facts(folder).run_id).values()
    ]


class Marks:
    """Saves marks on verdicts that exist. All calls may be made from several threads."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Path, FileIdentity | None], _Keys] = {}
        self._one = threading.Lock()

    def save(self, line: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
        """Append the mark ``line`` of the page to ``review.jsonl`` of the run it is on, one of those in ``folders``.

        The time of the mark is the current one. Return it as the page has it.

        :raises UsageError: if it is not a mark, or is on none of their verdicts.
        :raises DataError: if a record cannot be read. :raises OSError: if it cannot be written.
        """
        try:
            review = from_plain(Review, line)
        except ValueError as error:
            raise UsageError(f"the mark {error}") from None
        if len(review.note) > LONGEST_NOTE:
            raise UsageError(f"the note has {len(review.note):,} characters; the limit is {LONGEST_NOTE:,}")
        with self._one:
            for folder in folders:
                run_id = read_facts(folder).run_id
                key = self._keys_of(folder).find(review.key) if visible(run_id) == review.run else None
                if key is not None:
                    review = replace(review, **key._asdict(), run=run_id, time=utc_now())
                    append_review(folder, review)
                    return shown_review(review)
        raise UsageError("the mark is on a verdict that no run of this report has; build the report again")

    def _keys_of(self, folder: Path) -> _Keys:
        place = (folder, file_identity(folder / VERDICTS))
        keys = self._keys.pop(place, None) or _Keys(folder)
        self._keys = {**self._keys, place: keys}
        while len(self._keys) > _KEPT:
            del self._keys[next(iter(self._keys))]
        return keys


class _Keys:
    """The verdicts of a run. The page names them by their visible texts, which may differ from those of the record."""

    def __init__(self, folder: Path) -> None:
        self._plain: set[int] = set()
        self._others: dict[VerdictKey, VerdictKey] = {}
        for record in JsonLines(folder / VERDICTS, partial(from_plain, VerdictRecord)):
            key = record.key
            model, benchmark, source, item = map(visible, key[:4])
            seen = VerdictKey(model, benchmark, source, item, key.sample)
            if seen == key:
                self._plain.add(hash(key))
            else:
                self._others[seen] = key

    def find(self, seen: VerdictKey) -> VerdictKey | None:
        """Return the record's key of the verdict with this visible key; None if there is none."""
        return self._others.get(seen) or (seen if hash(seen) in self._plain else None)


ASSETS = Path(__file__).parent / "assets"
#: the files that pages load, by their name in addresses
LOADED = {
    **{name: REPORT_ASSETS / name for name in ("page.css", "page.js")},
    **{
        name: ASSETS / name
        for name in ("view.css", "icon.svg", "parts.js", "choice.js", "view.js", "making.js")
    },
}
# Not from the system, whose types a user can change.
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
#: the largest review mark, in bytes
LARGEST = 64_000
GONE = "This run is not listed any more: its folder was moved or deleted."


class Application:
    """The parts of the server, and what it answers."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._builds, self._marks = Builds(), Marks()
        report = "/reports/{ids}/{key}"
        self.app = Starlette(
            routes=[
                Route("/", self._page("view.html")),
                Route("/assets/{name}", self._asset),
                Route("/events", self._events),
                Route("/reports/{ids}/", self._open),
                Route(f"{report}/", self._making),
                Route(f"{report}/state", self._state),
                Route(f"{report}/reviews", self._reviews),
                Route(f"{report}/reviews", self._save, methods=["POST"]),
                Route(f"{report}/{{path:path}}", self._file),
            ],
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        steps = asyncio.create_task(self.hub.run())
        try:
            yield
        finally:
            steps.cancel()
            await asyncio.gather(steps, return_exceptions=True)
            await self._builds.close()

    def _page(self, name: str) -> Any:
        async def page(request: Request) -> Response:
            return HTMLResponse((ASSETS / name).read_text(encoding="utf-8"))

        return page

    async def _asset(self, request: Request) -> Response:
        path = LOADED.get(request.path_params["name"])
        if path is None:
            return _missing("There is no such file.")
        return Response(path.read_bytes(), media_type=TYPES[path.suffix])

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self.hub.messages(), media_type="text/event-stream")

    async def _open(self, request: Request) -> Response:
        """Begin to build the report on some runs, if it is not there, and lead to it."""
        folders = self.hub.folders(request.path_params["ids"])
        if folders is None:
            return _missing(GONE)
        return RedirectResponse(f"{request.url.path}{self._builds.open(folders).key}/", 303)

    def _build(self, request: Request) -> Build | Response:
        """Return the report of an address, or the way to build it again."""
        build = self._builds.get(request.path_params["key"])
        ids = request.path_params["ids"]
        if build is not None and self.hub.folders(ids) in (None, list(build.folders)):
            return build
        return RedirectResponse(f"{request.scope['root_path']}/reports/{ids}/", 303)

    async def _making(self, request: Request) -> Response:
        build = self._build(request)
        if isinstance(build, Response):
            return build
        if build.state == "built":
            return RedirectResponse(f"{request.url.path}report.html", 303)
        return await self._page("making.html")(request)  # type: ignore[no-any-return]

    async def _state(self, request: Request) -> Response:
        build = self._builds.get(request.path_params["key"])
        if build is None:
            return _missing("This report was deleted.")
        return JSONResponse(
            {
                "runs": [one_line(folder.name, 120) for folder in build.folders],
                "state": build.state,
                "doing": build.doing,
                "seconds": round(build.seconds),
                "problem": one_line(build.problem, 400),
            }
        )

    async def _file(self, request: Request) -> Response:
        build = self._build(request)
        if isinstance(build, Response):
            return build
        # The path is looked up among the files that were written, and never used as a path.
        path = {name: build.out / name for name in build.files}.get(request.path_params["path"])
        if path is None:
            return _missing("The report has no such page.")
        return FileResponse(path, headers={"Content-Security-Policy": REPORT_POLICY})

    async def _reviews(self, request: Request) -> Response:
        build = self._builds.get(request.path_params["key"])
        if build is None:
            return _missing("This report was deleted.")
        try:
            return JSONResponse(await asyncio.to_thread(saved_marks, build.folders))
        except LLMPropsError as error:
            return _problem(str(error), 409)

    async def _save(self, request: Request) -> Response:
        """Save a mark; the answer has it as it was saved, or one line that says why it was not."""
        build = self._builds.get(request.path_params["key"])
        if build is None:
            return _problem("this report was deleted; open it again from the list of runs", 404)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                return _problem("the mark is too long", 413)
        try:
            line = json.loads(body)
            if not isinstance(line, dict):
                raise ValueError("it is not an object")
        except (ValueError, RecursionError) as error:
            return _problem(f"the mark is not JSON: {error}", 400)
        try:
            return JSONResponse(await asyncio.to_thread(self._marks.save, line, build.folders))
        except LLMPropsError as error:
            return _problem(str(error), 400)
        except OSError as error:
            return _problem(f"review.jsonl could not be written: {error.strerror or error}", 507)


def _missing(text: str) -> Response:
    return Response(f"{text}\n", 404, media_type="text/plain")


def _problem(text: str, status: int) -> Response:
    return JSONResponse({"error": one_line(text, 400)}, status)
