"""One llama.cpp model with one sequence, through the C interface of llama-cpp-python.

The package's high-level class also reuses the common prefix, but its replies then depend on the earlier prompts:
llama.cpp computes a step of one token with other kernels than a longer step, which changes the logits of a 4-bit model
by as much as 0.5. This class evaluates every prompt in steps of at least eight tokens, whether or not its beginning is
cached, and never reuses the tokens of replies. A reply is therefore the same, bit for bit, as after an evaluation from
scratch. Flash attention does not have this property and is off.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmprops.models.sampling import common_prefix

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: maximum tokens per evaluation step; larger steps were not faster on a CPU
BATCH = 512
#: minimum tokens per step of a prompt, unless the prompt is shorter
SHORTEST_STEP = 8
# Some chat templates print today's date. A fixed date keeps prompts the same from one day to the next.
_DATE = date(2024, 7, 26)
_log: list[str] = []
_callback: Any = None


def _silence(llama: Any) -> None:
    """Send llama.cpp's log to a list instead of standard error."""
    global _callback
    if _callback is None:

        def keep(level: int, text: bytes, _: Any) -> None:
            if level == 3:  # GGML_LOG_LEVEL_ERROR (4 is debug)
                _log.append(text.decode("utf-8", "replace").strip())
                del _log[:-20]

        # C keeps a pointer to this object, so it must never be freed.
        _callback = llama.llama_log_callback(keep)
        llama.llama_log_set(_callback, ctypes.c_void_p(0))
        llama.llama_backend_init()


class LlamaContext:
    """A loaded GGUF file, with the keys and values of the last evaluated tokens.

    :param n_ctx: context length in tokens; 0 for the length that the model was trained with.
    :raises ValueError: if llama.cpp cannot load the file; the message is llama.cpp's first error.
    """

    def __init__(self, file: Path, *, n_ctx: int, threads: int) -> None:
        # OpenMP threads wait by spinning, which takes CPU time from other processes. A short spin costs nothing on an
        # idle machine, and next to a busy process it takes a third less time than libgomp's default of 300,000.
        # No spin at all takes twice the time. The variable is read when the library is loaded; the user's value wins.
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        llama: Any = importlib.import_module("llama_cpp")
        self._llama = llama
        self._model: Any = None
        self._ctx: Any = None
        self._batch: Any = None
        _silence(llama)
        _log.clear()
        self._model = llama.llama_model_load_from_file(str(file).encode(), llama.llama_model_default_params())
        if not self._model:
            raise ValueError(_log[0] if _log else "llama.cpp cannot load it")
        params = llama.llama_context_default_params()
        params.n_ctx = n_ctx
        params.n_batch = BATCH
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.no_perf = True
        self._ctx = llama.llama_init_from_model(self._model, params)
        if not self._ctx:
            raise ValueError(_log[0] if _log else "llama.cpp cannot make a context for it")
        self._memory = llama.llama_get_memory(self._ctx)
        self._vocab = llama.llama_model_get_vocab(self._model)
        self._batch = llama.llama_batch_init(BATCH, 0, 1)
        self.n_ctx: int = llama.llama_n_ctx(self._ctx)
        self.n_vocab: int = llama.llama_vocab_n_tokens(self._vocab)
        # Tokens cannot be removed from recurrent layers, whose state is one running sum.
        self._rewinds = not (
            llama.llama_model_is_recurrent(self._model) or llama.llama_model_is_hybrid(self._model)
        )
        self.tokens: list[int] = []  # a prompt and its reply, whose keys and values are cached
        self._prompt_length = 0
        self._prompt_logits: NDArray[np.float32] | None = None
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}
        self._template: Any = None

    # -- text ---------------------------------------------------------------------------------

    def metadata(self, key: str) -> str | None:
        """Return a value of the file's header as text, or None."""
        size = self._llama.llama_model_meta_val_str(self._model, key.encode(), None, 0)
        if size < 0:
            return None
        buffer = ctypes.create_string_buffer(size + 1)
        self._llama.llama_model_meta_val_str(self._model, key.encode(), buffer, size + 1)
        return buffer.value.decode("utf-8", "replace")

    def render(self, messages: list[dict[str, str]]) -> str:
        """Return the prompt that the file's chat template builds from the conversation.

        :raises ValueError: if the file has no template, or the template refuses the conversation.
        """
        if self._template is None:
            source = self.metadata("tokenizer.chat_template")
            if source is None:
                raise ValueError("the file has no chat template; use an instruction-tuned GGUF")
            formats: Any = importlib.import_module("llama_cpp.llama_chat_format")
            self._template = formats.Jinja2ChatFormatter(
                template=source,
                eos_token=self._token_text(self._llama.llama_vocab_eos(self._vocab)),
                bos_token=self._token_text(self._llama.llama_vocab_bos(self._vocab)),
            )
            self._template.strftime_now = _DATE.strftime
        return str(self._template(messages=messages).prompt)

    def _token_text(self, token: int) -> str:
        return "" if token < 0 else str(self._llama.llama_vocab_get_text(self._vocab, token).decode())

    def tokenize(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt, with a BOS token in front if the model expects one.

        :raises ValueError: if llama.cpp cannot tokenize the prompt.
        """
        raw = prompt.encode("utf-8", "replace")
        size = len(raw) + 8
        tokens = (ctypes.c_int32 * size)()
        count = self._llama.llama_tokenize(self._vocab, raw, len(raw), tokens, size, False, True)
        if count < 0:
            raise ValueError("llama.cpp cannot tokenize the prompt")
        result = list(tokens[:count])
        bos = self._llama.llama_vocab_bos(self._vocab)
        if bos >= 0 and self._llama.llama_vocab_get_add_bos(self._vocab) and result[:1] != [bos]:
            result.insert(0, bos)
        return result

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; the bytes of one character may be in several tokens."""
        if token not in self._pieces:
            size = 64
            while True:
                buffer = ctypes.create_string_buffer(size)
                n = self._llama.llama_token_to_piece(self._vocab, token, buffer, size, 0, False)
                if n >= 0:
                    break
                size = -n
            self._pieces[token] = buffer.raw[:n]
        return self._pieces[token]

    def ends(self, token: int) -> bool:
        """Return whether the token ends the model's turn."""
        if token not in self._ends:
            self._ends[token] = bool(self._llama.llama_vocab_is_eog(self._vocab, token))
        return self._ends[token]

    # -- evaluation -----------------------------------------------------------------------------

    def keep(self, count: int) -> int:
        """Drop all tokens after the first ``count``; return how many are left: ``count``, or 0 if all were dropped."""
        if count == len(self.tokens):
            return count
        if count <= 0 or not self._rewinds or not self._llama.llama_memory_seq_rm(self._memory, 0, count, -1):
            self._llama.llama_memory_clear(self._memory, True)
            count = 0
        del self.tokens[count:]
        return count

    def prompt(self, tokens: list[int]) -> NDArray[np.float32]:
        """Evaluate a prompt after the prefix that it shares with the last one; return its logits (vocabulary,)."""
        same = len(tokens) == self._prompt_length and tokens == self.tokens[: self._prompt_length]
        if same and self._prompt_logits is not None and self.keep(len(tokens)):
            return self._prompt_logits
        shared = min(common_prefix(self.tokens[: self._prompt_length], tokens), len(tokens) - SHORTEST_STEP)
        self._prompt_logits = None
        start = self.keep(max(shared, 0))
        self.evaluate(tokens[start:])
        self._prompt_length = len(tokens)
        self._prompt_logits = self._logits().copy()
        return self._prompt_logits

    def extend(self, token: int) -> NDArray[np.float32]:
        """Evaluate one token of the reply; return the logits as a view that is valid until the next call."""
        self.evaluate([token])
        return self._logits()

    def evaluate(self, tokens: list[int]) -> None:
        """Evaluate tokens after those already in the context, in steps of at most ``BATCH``."""
        starts = list(range(0, len(tokens), BATCH))
        if len(starts) > 1 and len(tokens) - starts[-1] < SHORTEST_STEP:
            starts[-1] = len(tokens) - SHORTEST_STEP
        batch = self._batch
        for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
            past = len(self.tokens)
            batch.n_tokens = end - start
            for i in range(end - start):
                batch.token[i] = tokens[start + i]
                batch.pos[i] = past + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = False
            batch.logits[end - start - 1] = True
            code = self._llama.llama_decode(self._ctx, batch)
            if code != 0:
                self._llama.llama_memory_clear(self._memory, True)
                self.tokens.clear()
                raise RuntimeError(f"llama.cpp could not evaluate the prompt (llama_decode returned {code})")
            self.tokens += tokens[start:end]

    def _logits(self) -> NDArray[np.float32]:
        import numpy as np

        pointer = self._llama.llama_get_logits_ith(self._ctx, -1)
        return np.ctypeslib.as_array(pointer, shape=(self.n_vocab,))

    def close(self) -> None:
        """Free the context and the model; a second call does nothing."""
        if self._batch is not None:
            self._llama.llama_batch_free(self._batch)
        if self._ctx:
            self._llama.llama_free(self._ctx)
        if self._model:
            self._llama.llama_model_free(self._model)
        self._batch = self._ctx = self._model = None
