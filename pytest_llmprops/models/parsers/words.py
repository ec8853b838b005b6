"""``words``: the words of a text in any language, by Unicode's letters, marks and digits, without a model.

The text and the lemma of a word are its folded form (case, composed letters, joiners). There are no tags.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.texts import TOKENIZER, unicode_words
from pytest_llmprops.models.base import CallOptions
from pytest_llmprops.models.parsers.base import Parser, Value, missing, word
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec


class WordParser(Parser):
    """A parser that only cuts texts into words; it is fast and deterministic."""

    def _analyse(self, texts: Sequence[str], language: str, analysis: str) -> list[Value]:
        if analysis != "words":
            reason = f"plain words have no {analysis}; use a parser (stanza, spacy:NAME)"
            return [missing(reason)] * len(texts)
        return [{"words": [word(w, w) for w in unicode_words(text)], "by": TOKENIZER} for text in texts]


def _check(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only()
    if spec.name != "words":
        raise UsageError(f"--model {spec.text}: write words")
    # Which characters are letters depends on the Unicode version of Python.
    identity = {"backend": "words", "tokenizer": TOKENIZER, "unicode": unicodedata.unidata_version}
    return lambda: WordParser(name="words", identity=identity)


BACKEND = Backend(_check, always("parse"), in_worker=True)
