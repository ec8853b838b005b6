"""No reply and no message shows a secret, in whatever spelling a server repeats it."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote, unquote

import pytest

from pytest_llmprops.core.errors import BackendError
from pytest_llmprops.core.requests import Reply
from pytest_llmprops.models.secrets import Secrets

KEY = "sk-Abc/123+echo=x"
SECRETS = Secrets([KEY])


def in_base64(before: str) -> str:
    return base64.b64encode(f"{before}{KEY} and more".encode()).decode()


SPELLINGS = {
    "as it is": KEY,
    "upper case": KEY.upper(),
    "percent-encoded": quote(KEY, safe=""),
    "every character percent-encoded": "".join(f"%{ord(c):02X}" for c in KEY),
    "in a URL": quote(f"https://host/?key={KEY}", safe=""),
    "base64": in_base64(""),
    "base64 after two bytes": in_base64("ab"),
    "base64 for URLs": base64.urlsafe_b64encode(f"a{KEY}".encode()).decode(),
}


def is_shown(text: str) -> bool:
    """Return True if a text has a recognisable part of the key."""
    spelled = [
        KEY,
        KEY[3:],
        quote(KEY, safe=""),
        in_base64("")[2:12],
        in_base64("x")[4:14],
        in_base64("ab")[4:14],
    ]
    return any(part.lower() in text.lower() for part in spelled)


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_secret_is_found_in_each_spelling(spelling: str) -> None:
    """It is replaced in each text of a reply, in the names and texts of its value, and in messages."""
    text = f"The key is '{spelling}'."
    fields: dict[str, Any] = dict.fromkeys(
        ("text", "reasoning", "finish_reason", "served_model", "via"), text
    )
    got = SECRETS.reply(Reply(**fields, value={text: [1, (text,)]}, deviations=(text,)))
    [name, [_, (inner,)]] = next(iter(got.value.items()))
    for shown in (
        *(getattr(got, field) for field in fields),
        name,
        inner,
        *got.deviations,
        SECRETS.message(text),
    ):
        assert "[key]" in shown
        assert not is_shown(shown)
        assert shown.startswith("The key is '")
    assert SECRETS.error(BackendError(text)).message == SECRETS.message(text)


@pytest.mark.parametrize(
    "logprobs",
    [
        [("sk-Abc/1", []), ("23+echo=x", [])],
        [("A", [KEY, "B"]), ("B", [])],
        [("A", ["sk-Abc/1"]), ("B", ["23+echo=x"])],
    ],
    ids=["tokens", "an alternative", "alternatives"],
)
def test_tokens_with_a_secret_are_left_out(logprobs: list[tuple[str, list[str]]]) -> None:
    """The tokens of a secret are parts of it, also when the text of the reply has none."""
    entries = tuple(
        {"token": token, "logprob": -1.0, "top": [{"token": other, "logprob": -2.0} for other in others]}
        for token, others in logprobs
    )
    assert SECRETS.reply(Reply("A", logprobs=entries)) == Reply("A")
    plain = Reply("A", logprobs=({"token": "A", "logprob": -1.0, "top": []},))
    assert SECRETS.reply(plain) is plain


@pytest.mark.parametrize("spelling", [KEY, quote(KEY, safe=""), "short-1"])
def test_start_of_a_secret_at_a_cut_is_hidden(spelling: str) -> None:
    """A message may have been cut inside of a secret; a few characters of it are shown at most."""
    secrets = Secrets([KEY, "short-1"])
    for length in range(len(spelling)):
        shown = secrets.message(f"wrong key {spelling[:length]}…; set another one")
        assert len(unquote(shown.partition("…")[0]).removeprefix("wrong key ")) <= 5 + 2 * ("%" in spelling)
        assert shown.endswith("…; set another one")
    kept = "see http://host/a%20long%20path%2…"
    assert secrets.message(kept) == kept


@pytest.mark.parametrize("key", ["x", "none", "k.y"])
def test_short_key_is_a_whole_word_of_messages_only(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local server takes any key; it is not searched in replies, nor inside of words."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    secrets = Secrets.of_run({}, [])
    assert secrets.message(f"Capacity exceeded, nonetheless tested, EMPTYing, kay; '{key}'") == (
        "Capacity exceeded, nonetheless tested, EMPTYing, kay; '[key]'"
    )
    assert secrets.reply(Reply(f"{key} of them")) == Reply(f"{key} of them")


@pytest.mark.parametrize("key", ["password", "20240201"])
def test_words_and_numbers_stay_in_replies(key: str) -> None:
    """A reply may have them by chance."""
    assert Secrets([key]).reply(Reply(f"It is {key}.")).text == f"It is {key}."
    assert Secrets([key]).message(f"it is {key}") == "it is [key]"


def test_where_secrets_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables with names of secrets, headers, and users, passwords and queries of addresses are secrets."""
    monkeypatch.setenv("MY_TOKEN", "token-1-of-env")
    monkeypatch.setenv(
        "OPENAI_BASE_URL", "https://me:pass-2-word@host/v1?code=query-3-value&api-version=2024-02-01"
    )
    monkeypatch.setenv("PLACE", "not-a-secret-4")
    headers = {"Authorization": "Bearer header-5-token"}
    secrets = Secrets.of_run(headers, ["http://a/v1,http://me:pass-6-word@b/v1", "http://[broken"])
    secret = ("token-1-of-env", "pass-2-word", "query-3-value", "header-5-token", "pass-6-word")
    for text in secret:
        assert secrets.reply(Reply(text)).text == "[key]"
    # Azure's version is a date.
    public = "not-a-secret-4 Bearer on 2024-02-01"
    assert secrets.reply(Reply(public)).text == public
