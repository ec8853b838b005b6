"""One llama.cpp server of xllamacpp in this process, set so that a reply never depends on earlier prompts.

llama.cpp computes a step of one token with other kernels than a longer step, and repacked weights with other kernels
for the last rows of a step. Both change the logits of a 4-bit model by as much as 1. So weights are not repacked, flash
attention is off, and there is one slot, so that no prompt shares a step with another.
:mod:`~pytest_llmprops.models.llamacpp` keeps the steps of a prompt longer than one token.
"""

from __future__ import annotations

import importlib
import mmap
import os
import re
import secrets
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import BackendError

#: maximum tokens per evaluation step; larger steps were not faster on a CPU
STEP = 512
# The settings of a file's header are in front of its tensors.
_HEADER = 1 << 28
_TEMPLATE = b"tokenizer.chat_template"
_STRING = 8  # the number of a string's type in a GGUF header
# Some chat templates print today's date. A fixed date keeps prompts the same from one day to the next.
_FIXED_DATE = "{%- macro strftime_now(format) -%}26 Jul 2024{%- endmacro -%}"
_LOAD = (
    "import sys; from pathlib import Path; from pytest_llmprops.models.llama_server import LlamaServer;"
    " LlamaServer(Path(sys.argv[1]), n_ctx=int(sys.argv[2]), threads=1, verbosity=1)"
)


@dataclass(slots=True)
class Answer:
    """What the server streamed.

    :param evaluated: the tokens of the prompt that were not in the cache.
    """

    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    cached: int = 0
    tokens: int = 0
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def evaluated(self) -> int:
        return self.prompt_tokens - self.cached

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
    :param verbosity: 1 prints errors on standard error, below 0 nothing is printed.
    :raises ValueError: if llama.cpp cannot load the file, or the file has no chat template.
    """

    def __init__(self, file: Path, *, n_ctx: int, threads: int, verbosity: int = -1) -> None:
        # OpenMP threads wait by spinning, which takes CPU time from other processes. A short spin costs nothing on an
        # idle machine, and next to a busy process it takes a third less time than libgomp's default of 300,000.
        # No spin at all takes twice the time. The variable is read when the library is loaded; the user's value wins.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        xllamacpp: Any = importlib.import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = str(file)
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, 4 * STEP, STEP
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.verbosity = verbosity
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
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError:
            # The exception has no reason, and the log goes to standard error.
            raise ValueError("" if verbosity >= 0 else _reason(file, n_ctx)) from None
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

    def close(self) -> None:
        """Free the model."""
        self._server = None


def runtime() -> str:
    """Return the name and version of the library that computes the replies."""
    return f"xllamacpp {version('xllamacpp')}"


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


def _reason(file: Path, n_ctx: int) -> str:
    """Return llama.cpp's first error about a file, from a process that loads it again."""
    command = [sys.executable, "-c", _LOAD, str(file), str(n_ctx)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600, check=False)
    # The lines begin with the time and the level: 0.00.015.056 E gguf_init_from_reader: failed to read header
    lines = re.findall(r"^[\d.]+ E (?:\S+: +)?(.*)$", done.stderr, re.MULTILINE)
    return " ".join(lines[0].split()) if lines else "llama.cpp cannot load it"
