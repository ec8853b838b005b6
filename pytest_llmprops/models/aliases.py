"""Short names of providers and local servers, such as ``ollama:NAME``, and the backends that serve them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_llmprops.models.addresses import without_user
from pytest_llmprops.models.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class Alias:
    """A provider or server that another backend serves.

    :param example: a model's name.
    :param url: base URL of a server with OpenAI's chat API, on this machine.
    :param provider: litellm's name of the provider.
    :param keys: the environment variables that litellm reads.
    """

    example: str
    url: str = ""
    provider: str = ""
    keys: tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        """The name of the backend."""
        return "openai" if self.url else "litellm"


ALIASES: Mapping[str, Alias] = {
    "lmstudio": Alias("qwen3-8b", url="http://localhost:1234/v1"),
    "ollama": Alias("llama3.2", url="http://localhost:11434/v1"),
    "sglang": Alias("Qwen/Qwen3-8B", url="http://localhost:30000/v1"),
    "vllm": Alias("Qwen/Qwen3-8B", url="http://localhost:8000/v1"),
    "azure": Alias(
        "DEPLOYMENT", provider="azure", keys=("AZURE_API_KEY", "AZURE_API_BASE", "AZURE_API_VERSION")
    ),
    "bedrock": Alias(
        "anthropic.claude-3-haiku-20240307-v1:0",
        provider="bedrock",
        keys=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION_NAME"),
    ),
    "cohere": Alias("command-r-plus", provider="cohere", keys=("COHERE_API_KEY",)),
    "deepseek": Alias("deepseek-chat", provider="deepseek", keys=("DEEPSEEK_API_KEY",)),
    "gemini": Alias("gemini-2.5-flash", provider="gemini", keys=("GEMINI_API_KEY",)),
    "groq": Alias("llama-3.3-70b-versatile", provider="groq", keys=("GROQ_API_KEY",)),
    "mistral": Alias("mistral-small-latest", provider="mistral", keys=("MISTRAL_API_KEY",)),
    "openrouter": Alias("qwen/qwen3-8b", provider="openrouter", keys=("OPENROUTER_API_KEY",)),
    "together": Alias("Qwen/Qwen3-8B", provider="together_ai", keys=("TOGETHERAI_API_KEY",)),
    "vertex": Alias(
        "gemini-2.5-flash", provider="vertex_ai", keys=("GOOGLE_APPLICATION_CREDENTIALS", "VERTEXAI_PROJECT")
    ),
    "xai": Alias("grok-3-mini", provider="xai", keys=("XAI_API_KEY",)),
}


def resolve_alias(
    text: str, head: str, name: str, params: Mapping[str, str], *, base_url: str | None
) -> ModelSpec:
    """Return the specification that ``head:name`` stands for.

    :param text: the text of the specification.
    :param base_url: the value of ``--llm-base-url``, which replaces the address of a server.
    """
    alias = ALIASES[head]
    if alias.provider:
        return ModelSpec(text, alias.backend, f"{alias.provider}/{name}", params)
    return ModelSpec(text, alias.backend, name, params if base_url else {"base_url": alias.url, **params})


def suggested(name: str) -> str:
    """Return the specification with an alias for the bare name of a known family: ``gemini-...``; otherwise empty."""
    family = name.partition("-")[0]
    return next((f"{a}:{name}" for a, alias in ALIASES.items() if alias.example.startswith(f"{family}-")), "")


def hint(spec: ModelSpec) -> str:
    """Return what the alias of a specification stands for; an empty text if it has none."""
    head, _, _ = spec.text.partition(":")
    if head not in ALIASES or spec.backend != ALIASES[head].backend:
        return ""
    where = f" with the base URL {without_user(spec.params['base_url'])}" if "base_url" in spec.params else ""
    return f"{spec.text.partition('?')[0]} is {spec.backend}:{spec.name}{where}"
