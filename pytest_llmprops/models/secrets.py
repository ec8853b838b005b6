"""The secrets of a run: no reply and no message that comes back from a model shows one of them."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any
from urllib.parse import unquote

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.models.spec import secrets_of, split_query, split_user

#: what is shown in place of a secret
MASK = "[key]"
#: characters of the shortest secret that is also found inside of words
SHORTEST = 8
#: names of environment variables with secrets, and with keys, which may be short: a local server takes any
_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_KEYS = ("_API_KEY", "_ACCESS_KEY")
_ADDRESSES = ("_BASE_URL", "_API_BASE")
#: members of a query that are no secret; Azure's is a date, which a reply may have
_NO_SECRETS = ("api-version",)
#: what looks like a secret in a server's message, whoever it belongs to
_LOOKS = (
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=*-]{4,}"), rf"\1 {MASK}"),
    (re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|AIza|key)[-_][A-Za-z0-9_*.-]{6,}"), MASK),
    (re.compile(r"(?<=//)[^/\s@]+@"), ""),
    (re.compile(r"(?i)((?:api[-_]?key|access_token|token)=)[^&\s]+"), rf"\1{MASK}"),
)
#: characters at the start of a secret that a cut text may end with
_SHOWN_START = 5
#: a word that was cut
_BEFORE_CUT = re.compile(r"[^\s…]+(?=…)")
#: the start of an encoded character at the end of a cut word
_CUT_ESCAPE = re.compile(r"%.?$")
_FIELDS = tuple(field.name for field in fields(Reply) if field.name != "logprobs")
_WITH_TEXTS = (str, list, tuple, dict)


class Secrets:
    """The texts that no reply and no message may show.

    They are found in any case, percent-encoded, and in base64, also as a part of a longer encoded text. In messages,
    secrets of fewer than ``SHORTEST`` characters are found as whole words. In replies, only those are found that no
    reply has by chance: not short ones, words and numbers, because a local server may take the key ``none``.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        known = set(filter(None, map(str.strip, texts)))
        long = {text for text in known if len(text) >= SHORTEST}
        self._in_messages = _Finder(long)
        self._in_replies = _Finder(text for text in long if not (text.isalpha() or text.isdigit()))
        #: of which a message that was cut may end with the start
        self._cut = _longest_first([*self._in_messages.forms, *map(str.lower, known - long)])
        words = "|".join(map(re.escape, _longest_first(known - long)))
        self._words = re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None

    @classmethod
    def of_run(cls, headers: Mapping[str, str], addresses: Iterable[str]) -> Secrets:
        """Return the secrets in headers, in addresses (users, passwords and queries), and in this environment."""
        texts = set(headers.values()) | {word for value in headers.values() for word in value.split()}
        addresses = list(addresses)
        for name, value in os.environ.items():
            if _NAMES.search(name) and (len(value) >= SHORTEST or name.endswith(_KEYS)):
                texts.add(value)
            if name.endswith(_ADDRESSES):
                addresses.append(value)
        for address in (one for several in addresses for one in several.split(",")):
            # A wrong address is refused where it is used.
            with suppress(ValueError):
                queries = split_query(address)[1].items()
                texts.update(secrets_of(split_user(address)[1]))
                texts.update(value for name, value in queries if name not in _NO_SECRETS)
        return cls(texts)

    def reply(self, reply: Reply) -> Reply:
        """Return a reply without secrets in any text, also inside of ``value``.

        The log probabilities are left out if their tokens, which are parts of words, have a secret.
        """
        find = self._in_replies
        if not find.forms:
            return reply
        changed: dict[str, Any] = {}
        for name in _FIELDS:
            value = getattr(reply, name)
            # Most fields are empty. A value may also be an array, which has no truth value.
            if type(value) in _WITH_TEXTS and value and (shown := find.masked(value)) != value:
                changed[name] = shown
        entries = reply.logprobs or ()
        tokens = "".join([entry["token"] for entry in entries])
        others = "".join([other["token"] for entry in entries for other in entry.get("top") or ()])
        if reply.logprobs and (changed or find.has(tokens) or find.has(others)):
            changed["logprobs"] = None
        return replace(reply, **changed) if changed else reply

    def error(self, error: BackendError) -> BackendError:
        """Return the same error; its message shows no secret, and nothing that looks like one."""
        text = self.message(error.message)
        for pattern, replacement in _LOOKS:
            text = pattern.sub(replacement, text)
        error.message = text
        error.args = (text,)
        return error

    def message(self, text: str) -> str:
        """Return a text for the user without secrets, also without the start of one that was cut (``…``)."""
        find = self._in_messages
        text = _BEFORE_CUT.sub(lambda word: self._without_start(word[0]), find.masked(text))
        return text if self._words is None else self._words.sub(MASK, text)

    def _without_start(self, word: str) -> str:
        """Return ``word`` with ``MASK`` in place of the start of a secret at its end."""
        for shown in (word, unquote(_CUT_ESCAPE.sub("", word))):
            for form in self._cut:
                for length in range(min(len(form), len(shown)), _SHOWN_START, -1):
                    if shown.lower().endswith(form[:length]):
                        return shown[:-length] + MASK
        return word


class _Finder:
    """Finds texts in all their spellings.

    Most replies have none of them, so the search with ``in`` comes first: it takes a tenth of the time of the pattern.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        spellings = (form for text in texts for form in (text, *_in_base64(text)))
        #: in lower case
        self.forms = _longest_first(form.lower() for form in spellings)
        self._pattern = re.compile("|".join(map(re.escape, self.forms)), re.IGNORECASE)

    def has(self, text: str) -> bool:
        """Return True if ``text`` has one of the texts."""
        lower = text.lower()
        return any(form in lower for form in self.forms)

    def masked(self, value: Any) -> Any:
        """Return a text with ``MASK`` in place of each of the texts, or a JSON value or a tuple of such texts.

        A text that has one of them percent-encoded is decoded.
        """
        if isinstance(value, str):
            if "%" in value and self.has(decoded := unquote(value)):
                value = decoded
            return self._pattern.sub(MASK, value) if self.has(value) else value
        if type(value) is dict:
            return {self.masked(name): self.masked(part) for name, part in value.items()}
        if type(value) in (list, tuple):
            return type(value)(map(self.masked, value))
        return value


def _longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts without repetitions; one may contain another."""
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))


def _in_base64(text: str) -> Iterator[str]:
    """Yield the part of ``text`` in base64 that does not depend on the text around it, for each alignment."""
    raw = text.encode("utf-8", "replace")
    for before in range(3):
        # A character stands for six bits. Those that have bits of other bytes are left out.
        encoded = base64.b64encode(bytes(before) + raw + bytes(2)).decode()
        whole = encoded[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        yield from {whole, whole.replace("+", "-").replace("/", "_")}
