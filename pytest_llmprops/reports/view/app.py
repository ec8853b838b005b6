"""The ASGI application of ``llmprops view``: the list of runs, their reports, and their review marks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.page.html import ASSETS as REPORT_ASSETS
from pytest_llmprops.reports.view.built import Build, Builds
from pytest_llmprops.reports.view.guard import REPORT_POLICY
from pytest_llmprops.reports.view.hub import Hub
from pytest_llmprops.reports.view.marks import Marks, saved_marks

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
