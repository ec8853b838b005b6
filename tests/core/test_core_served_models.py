"""Another model than the one that was asked for answered, as the server says."""

from __future__ import annotations

from pytest_llmprops.records.run import ModelMetadata
from pytest_llmprops.records.served_models import fallback_notes, is_same_model


def test_versions_and_providers_of_one_name_are_one_model() -> None:
    """A dated version, a provider's prefix or an alias of the newest version is not a fallback."""
    for asked, served in (
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("openai/gpt-4o", "gpt-4o"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("vertex_ai/claude-3-5-sonnet@20240620", "claude-3-5-sonnet"),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku-20240307-v1:0"),
        ("gemini-1.5-pro", "models/gemini-1.5-pro-002"),
        ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
        ("llama3", "llama3:latest"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b-instruct"),
    ):
        assert is_same_model(asked, served)
        assert is_same_model(served, asked)


def test_other_models_are_not_versions() -> None:
    """A smaller, newer or other model, or another date than the one that was asked for, is a fallback."""
    for asked, served in (
        ("gpt-4o", "gpt-3.5-turbo"), ("gpt-4o", "gpt-4o-mini"), ("gpt-5", "gpt-5.1"),
        ("claude-sonnet-4", "claude-sonnet-4-5"), ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
    ):  # fmt: skip
        assert not is_same_model(asked, served)


def api(name: str, **counts: int) -> ModelMetadata:
    """Return a model of an API with the numbers of its replies by served name."""
    served = {name.replace("_", "-"): n for name, n in counts.items()}
    return ModelMetadata(name, identity={"name": name, "base_url": ""}, served_counts=served)


def test_note_has_the_number_of_replies() -> None:
    """The note names the model, who served it, and for how many replies; the most frequent first.

    A local model is named by its file; a model without replies has nothing to say.
    """
    assert fallback_notes([api("m", gpt=11)]) == ["m was served as gpt (11 of 11 replies)"]
    [two] = fallback_notes([api("m", m=8, a=1, b=2)])
    assert two == "m was served as b (2 of 11 replies), a (1 of 11 replies)"
    [many] = fallback_notes([api("m", a=1, b=2, c=3, d=4, e=5)])
    assert many.endswith("c (3 of 15 replies), 2 others")
    local = ModelMetadata("hf:x", identity={"name": "x"}, served_counts={"/models/x": 3})
    assert fallback_notes([local, api("m"), api("m", m_0613=5), ModelMetadata("imported")]) == []
