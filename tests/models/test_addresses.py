"""Users and passwords of web addresses are taken out of texts and sent as a header."""

from __future__ import annotations

import pytest

from pytest_llmprops.models.spec import basic, secrets_of, split_user, without_user

HOST = "http://host:8000/v1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (HOST, HOST),
        ("http://user:PW@host:8000/v1", HOST),
        ("--llm-base-url=HTTPS://user:PW@host/v1", "--llm-base-url=HTTPS://host/v1"),
        ("http://PW@host:8000/v1", HOST),
        ("http://user:P@W@host:8000/v1", HOST),
        ("http://user:P/W@host:8000/v1", HOST),
        ("http://user:PW%40host:8000/v1", HOST),
        ("http://u:PW@a/v1,http://u:PW@b:1/v1", "http://a/v1,http://b:1/v1"),
        ("openai:m?base_url=http://u:PW@a/v1&n=off", "openai:m?base_url=http://a/v1&n=off"),
        ("openai:m?base_url=http%3A%2F%2Fu%3APW%40a%2Fv1", "openai:m?base_url=http%3A%2F%2Fa%2Fv1"),
        ("me@example.org and http://host:8000/a@b", "me@example.org and http://host:8000/a@b"),
    ],
)
def test_users_are_taken_out_of_a_text(text: str, shown: str) -> None:
    """A text keeps its addresses without users and passwords, also malformed and encoded ones."""
    assert shown == without_user(text)


def test_user_is_sent_as_a_header() -> None:
    """User and password are decoded, and the header is the one of RFC 7617, section 2."""
    url, user = split_user("https://Aladdin:open%20sesame@host/v1?x=1")
    assert (url, user) == ("https://host/v1?x=1", "Aladdin:open sesame")
    assert basic(user) == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
    assert secrets_of(user) == ("open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    assert split_user(HOST) == (HOST, "")
    assert secrets_of("") == ()
