"""Translation with a sequence-to-sequence model of the transformers library."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply, Translate, Usage
from pytest_llmprops.models.base import Result
from pytest_llmprops.models.hf_model import HfModel
from pytest_llmprops.models.translation_codes import FAMILIES, MARIAN, MBART50, codes_of, language_of

#: Default limit of new tokens per translation. An assumption: the DTAiLS paper does not state one; its
#: sentences have fewer than 50 tokens.
MAX_NEW_TOKENS = 256


class _Row(NamedTuple):
    """A text to translate: its index in the call, its tokens, and the token that its translation must start with."""

    place: int
    ids: list[int]
    first: int | None


class _Output(NamedTuple):
    """A translation: its text, whether the model ended it, and its number of tokens."""

    text: str
    ended: bool
    tokens: int


class HfTranslateModel(HfModel):
    """An NLLB, M2M100, mBART-50, MADLAD-400 or Marian model.

    The languages are passed as each model card requires. The family follows from the model's type and from
    the language tokens in its vocabulary:

    - NLLB, M2M100, mBART-50: the source language's token is set on the tokenizer; the target language's
      token is forced as the first generated token.
    - MADLAD-400: ``<2xx>`` of the target language is put before the text.
    - Marian: ``>>xxx<<`` of the target language is put before the text if the vocabulary has such tokens.
      Otherwise the tokenizer's language pair must be the requested one.

    Decoding is greedy or uses a beam; nothing is sampled. A batch holds texts of similar length. A translation
    does not depend on its batch, except for rounding.

    :param beams: Width of the beam; 1 is greedy decoding.
    :param max_new_tokens: Maximum length of a translation, including the language token. A translation cut
        there has the ``finish_reason`` "length".
    :param source_code: The model's own code of the source language, instead of the built-in one.
    :param target_code: The same for the target language.
    """

    def __init__(
        self,
        load: Callable[[], tuple[Any, Any]],
        *,
        beams: int,
        max_new_tokens: int,
        source_code: str | None,
        target_code: str | None,
        **settings: Any,
    ) -> None:
        super().__init__(load, **settings)
        self.max_batch = 4 * self._batch
        self._beams, self._most = beams, max_new_tokens
        self._source_code, self._target_code = source_code, target_code
        self._family = MARIAN
        #: language token -> its id in the vocabulary
        self._languages: Mapping[str, int] = {}

    def translate(self, requests: Sequence[Translate]) -> Sequence[Result]:
        """Return one result per request, in order; ``Reply.text`` is the translation."""
        with self._lock:
            try:
                self._loaded()
            except BackendError as error:
                return [error] * len(requests)
            results: dict[int, Result] = {}
            # All texts of a batch share one forced first token.
            groups: dict[int | None, list[_Row]] = {}
            for index, request in enumerate(requests):
                try:
                    row = self._row(index, request)
                except BackendError as error:
                    results[index] = error
                else:
                    groups.setdefault(row.first, []).append(row)
            for rows in groups.values():
                results |= self._serve(rows)
            return [results[i] for i in range(len(requests))]

    def _loaded(self) -> bool:
        if not super()._loaded():
            return False
        # The tokenizer of M2M100 does not list the language tokens in its vocabulary.
        vocabulary = self.tokenizer.get_vocab() | getattr(self.tokenizer, "lang_token_to_id", {})
        model_type = str(getattr(self.network.config, "model_type", ""))
        for family in FAMILIES:
            if model_type in family.model_types:
                languages = {t: i for t, i in vocabulary.items() if re.fullmatch(family.pattern, t)}
                if languages or family is MARIAN:
                    self._family, self._languages = family, languages
                    return True
        self.network = self.tokenizer = None
        raise BackendError(
            f"{self._name}: not a supported translation model (its type is {model_type!r}, and its vocabulary"
            f" has no language tokens). Supported: {', '.join(family.name for family in FAMILIES)}",
            kind="model",
            fatal=True,
        )

    def _row(self, place: int, request: Translate) -> _Row:
        if not request.text.strip():
            raise BackendError(f"{self._name}: the text is empty", kind="request")
        if self._family.names_source:
            source = self._code("source", request.source, self._source_code)
            target = self._code("target", request.target, self._target_code)
            self.tokenizer.src_lang = source
            ids = self.encoded(request.text)
            number = self._languages[self._family.token(source)]
            # Older NLLB tokenizers put it after the text. mBART-25 does too, but is started differently.
            places = ids[:1] if self._family is MBART50 else [ids[0], ids[-1]]
            if number not in places:
                raise self._unusable(
                    f"its tokenizer does not put the source language {source} in front of a text"
                )
            first: int | None = self._languages[self._family.token(target)]
        else:
            if self._source_code is not None:
                raise self._unusable(
                    f"{self._family.name} models take no source language: remove source_code="
                )
            tag = self._tag(request)
            ids = self.encoded(f"{tag} {request.text}" if tag else request.text)
            if tag and self._languages[tag] not in ids:
                raise self._unusable(f"its tokenizer does not read {tag} as one token")
            first = None
        self._check_length(len(ids))
        return _Row(place, ids, first)

    def _tag(self, request: Translate) -> str:
        """Return the tag put before a text; empty for a Marian model of a single pair."""
        if self._family is MARIAN and self._target_code is None and not self._needs_tag(request):
            return ""
        return self._family.token(self._code("target", request.target, self._target_code))

    def _needs_tag(self, request: Translate) -> bool:
        """Return whether a Marian model needs a tag for the target language.

        :raises BackendError: if its tokenizer states another pair of languages.
        """
        # Language groups (mul, gmw) and unknown codes do not restrict the pair.
        source, target = (
            language_of(str(getattr(self.tokenizer, name, None) or ""))
            for name in ("source_lang", "target_lang")
        )
        same = target is not None and target == language_of(request.target)
        if source not in (None, language_of(request.source)) or not (
            self._languages or target is None or same
        ):
            raise self._unusable(
                f"it translates from {source or 'any language'} to {target or 'those of its tags'},"
                f" not from {request.source} to {request.target}"
            )
        # A model with one target language may have tags only for its scripts or dialects.
        tags = map(MARIAN.token, codes_of(MARIAN, request.target))
        return bool(self._languages) and (not same or any(tag in self._languages for tag in tags))

    def _code(self, side: str, language: str, stated: str | None) -> str:
        """Return the model's own code of a language whose token is in the vocabulary.

        :param side: "source" or "target".
        :raises BackendError: if the model does not have the language.
        """
        codes = (stated,) if stated is not None else codes_of(self._family, language)
        for code in codes:
            if self._family.token(code) in self._languages:
                return code
        tokens = " or ".join(map(self._family.token, codes)) or "no code is known for it"
        raise self._unusable(
            f"this {self._family.name} model does not have the {side} language {language!r} ({tokens});"
            f" choose one of its {len(self._languages)} with {side}_code=CODE"
        )

    def _unusable(self, why: str) -> BackendError:
        return BackendError(f"{self._name}: {why}", kind="model", fatal=True)

    def encoded(self, text: str) -> list[int]:
        """Return the tokens of a text, not cut to the model's length."""
        try:
            return [int(i) for i in self.tokenizer(text, truncation=False)["input_ids"]]
        except Exception as error:
            line = " ".join(str(error).split())[:300]
            raise BackendError(f"{self._name}: the tokenizer fails: {line}", kind="request") from None

    def _serve(self, rows: Sequence[_Row]) -> dict[int, Result]:
        """Translate rows that share a first token; return results by the rows' indices."""
        start = time.perf_counter()
        try:
            outputs = self._in_batches(
                [len(row.ids) for row in rows], lambda indices: self.generate([rows[i] for i in indices])
            )
        except BackendError as error:
            return {row.place: error for row in rows}
        seconds = (time.perf_counter() - start) / len(rows)
        results: dict[int, Result] = {}
        for row, output in zip(rows, outputs, strict=True):
            if isinstance(output, BackendError):
                results[row.place] = output
                continue
            results[row.place] = Reply(
                text=output.text,
                finish_reason="stop" if output.ended else "length",
                served_model=self._name,
                usage=Usage(len(row.ids), output.tokens),
                seconds=seconds,
            )
        return results

    def generate(self, rows: Sequence[_Row]) -> list[_Output]:
        """Translate one batch; the outputs follow ``rows``."""
        padded = self.tokenizer.pad({"input_ids": [row.ids for row in rows]}, return_tensors="pt")
        config = self.network.config
        positions = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        lines = self.network.generate(
            **padded.to(self.network.device),
            **({} if rows[0].first is None else {"forced_bos_token_id": rows[0].first}),
            num_beams=self._beams,
            do_sample=False,
            max_length=None,
            max_new_tokens=min(self._most, positions - 1),
            # With a forced end token, a truncated translation would look complete.
            forced_eos_token_id=None,
            stopping_criteria=[self.stop_when_closed],
        ).tolist()
        ends = {self.tokenizer.eos_token_id}
        configured = getattr(self.network.generation_config, "eos_token_id", None)
        ends.update(configured if isinstance(configured, list) else [configured])
        return [self._output(line, row.first, ends) for line, row in zip(lines, rows, strict=True)]

    def _output(self, line: list[int], first: int | None, ends: set[int | None]) -> _Output:
        # The first token is the decoder's start token, which is often the end token itself.
        new = line[1:]
        end = next((i for i, token in enumerate(new) if token in ends), None)
        new = new[:end]
        if first is not None and new[:1] == [first]:
            new = new[1:]
        text = str(self.tokenizer.decode(new, skip_special_tokens=True))
        # Drop a character whose last bytes were cut off by the limit.
        return _Output(text.rstrip("\ufffd").strip(), end is not None, len(new))

    def stop_when_closed(self, ids: Any, scores: Any, **more: Any) -> Any:
        """Stop generating when the model is closed; the library calls this after every token."""
        if self.is_closed:
            raise BackendError(f"{self._name} was closed before its reply was complete", kind="closed")
        torch: Any = importlib.import_module("torch")
        return torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
