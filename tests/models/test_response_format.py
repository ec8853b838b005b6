"""``Chat.response_format``: how it is sent, what does not have it, and that it leaves other requests as they are."""

from __future__ import annotations

from dataclasses import replace

from pytest_llmprops.core.requests import Chat, request_from_json, request_key, request_to_json
from pytest_llmprops.models.api.deviations import Deviations, chat_body
from pytest_llmprops.models.api.responses import response_params

PLAIN = Chat.user("Output one JSON object.")
JSON = replace(PLAIN, response_format="json_object")


def test_each_api_has_its_own_name_for_it() -> None:
    """The chat format and the Responses API (their references, November 2026)."""
    body = chat_body("m", JSON)
    assert body["response_format"] == {"type": "json_object"}
    assert response_params(body, Deviations())["text"] == {"format": {"type": "json_object"}}
    assert "response_format" not in chat_body("m", PLAIN)


def test_it_is_part_of_the_key_only_if_it_is_set() -> None:
    """Replies that were stored for requests without it are found as before."""
    assert request_key({}, JSON) != request_key({}, PLAIN)
    assert "response_format" not in request_to_json(PLAIN)
    for chat in (PLAIN, JSON):
        assert request_from_json(request_to_json(chat)) == chat
        # The fast path and the encoder give the same key.
        assert request_key({}, chat) == request_key({}, replace(chat))
