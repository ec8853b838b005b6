"""The ASGI application of ``llmprops view``: the page of a site with its live part, reports, and review marks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette
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

from pytest_llmprops.core.errors import LLMPropsError
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.reports.site.hub import Hub
from pytest_llmprops.reports.site.marks import save_mark, saved_marks
from pytest_llmprops.reports.site.pages import PAGE, CannotBuild

#: the largest review mark, in bytes
LARGEST = 64_000


class Application:
    """What the server answers."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._pages = hub, hub.pages
        report = "/reports/{run}/run"
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/events", self._events),
                Route(f"{report}/reviews", self._reviews),
                Route(f"{report}/reviews", self._save, methods=["POST"]),
                Route(f"{report}/{{path:path}}", self._file),
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
        page = await self._pages.index()
        # Read at once: the file may be replaced meanwhile.
        return HTMLResponse(await asyncio.to_thread(page.read_bytes))

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._hub.messages(), media_type="text/event-stream")

    async def _folder(self, request: Request) -> Path | None:
        """Return the folder of the run that a request names; None if it is not there when all runs were read."""
        key, watch = request.path_params["run"], self._hub.watch
        if key not in watch.runs:
            await self._hub.read.wait()
        run = watch.runs.get(key)
        return None if run is None else run.folder

    async def _file(self, request: Request) -> Response:
        """Return a page of a report, which is built if the record changed since; this may take a minute."""
        folder, path = await self._folder(request), request.path_params["path"]
        if not path:
            return RedirectResponse(f"{request.url.path}{PAGE}", 303)
        if folder is None:
            return _text("This run is not there any more: its folder was moved or deleted.", 404)
        try:
            files = await self._pages.report(folder, is_new=path == PAGE)
        except CannotBuild as error:
            return _text(f"The report could not be built: {error}", 500)
        # The path is looked up among the files that were written, and never used as a path.
        return FileResponse(files[path]) if path in files else _text("The report has no such page.", 404)

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
            line = json.loads(body)
            if not isinstance(line, dict):
                raise ValueError("it is not an object")
        except (ValueError, RecursionError) as error:
            return _problem(f"the mark is not JSON: {error}", 400)
        try:
            return JSONResponse(await asyncio.to_thread(save_mark, line, folder))
        except LLMPropsError as error:
            return _problem(str(error), 400)
        except OSError as error:
            return _problem(f"review.jsonl could not be written: {error.strerror or error}", 507)


def _text(text: str, status: int) -> Response:
    return PlainTextResponse(f"{one_line(text, 400)}\n", status)


def _problem(text: str, status: int) -> Response:
    return JSONResponse({"error": one_line(text, 400)}, status)
