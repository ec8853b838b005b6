"""``words``: words of any language without a model, by Unicode's letters, marks and digits.

Text and lemma of a word are its folded form (case, composed letters, joiners); there are no tags.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.words import TOKENIZER, unicode_words
from pytest_llmprops.models.base import BackendOptions
from pytest_llmprops.models.parsing import Parser, Value, missing, word
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec


class WordParser(Parser):
    """Cuts texts into words; cheap and deterministic."""

    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        if analysis != "words":
            return [missing(f"plain words have no {analysis}; it takes a parser (stanza, spacy:NAME)")] * len(
                texts
            )
        return [{"words": [word(w, w) for w in unicode_words(text)], "by": TOKENIZER} for text in texts]


def _check(spec: ModelSpec, options: BackendOptions) -> Maker:
    spec.only()
    if spec.name != "words":
        raise UsageError(f"--model {spec.text}: write words")
    # What a letter is follows Python's tables of Unicode.
    identity = {"backend": "words", "tokenizer": TOKENIZER, "unicode": unicodedata.unidata_version}
    return lambda: WordParser(name="words", identity=identity)


BACKEND = Backend(_check, always("parse"), in_worker=True)
