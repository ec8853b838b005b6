"""The registry of backends: built-in ones, entry points, those of a ``conftest.py``, and short names of providers."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.requests import KINDS, Kind
from pytest_llmprops.core.texts import did_you_mean
from pytest_llmprops.models.base import CallOptions, Model, checked_model
from pytest_llmprops.models.spec import ModelSpec, split, without_secrets


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


def hint(spec: ModelSpec) -> str:
    """Return what the alias of a specification stands for; an empty text if it has none."""
    head, _, _ = spec.text.partition(":")
    if head not in ALIASES or spec.backend != ALIASES[head].backend:
        return ""
    url = spec.params.get("base_url")
    where = f" with the base URL {without_secrets(url)}" if url else ""
    return f"{spec.text.partition('?')[0]} is {spec.backend}:{spec.name}{where}"


Factory = Callable[[ModelSpec, CallOptions], Model]
#: creates the model of a checked specification
Maker = Callable[[], Model]
Check = Callable[[ModelSpec, CallOptions], Maker]
KindsOf = Callable[[ModelSpec], frozenset[Kind]]
Missing = Callable[[ModelSpec, CallOptions], str]
ENTRY_POINTS = "pytest_llmprops.models"
FIRST_OF = "first-of"


@dataclass(frozen=True, slots=True)
class Backend:
    """A kind of model specification: how to check it and create its models.

    :param check: function from the specification and the options to a function that creates the model. It raises
        :class:`~pytest_llmprops.core.errors.UsageError` for missing packages, missing files and wrong parameters. Both
        must be fast: ``check`` runs before collection ends, and weights are loaded at the first request.
    :param kinds: function from the specification to the kinds of request that the model serves. It does not load the
        model.
    :param ready: function that returns whether the package and the files of a model are on this machine, without slow
        imports. Default helpers are chosen by it. Default: always true.
    :param in_worker: its models are cheap and deterministic; the pytest processes serve them, without broker and store.
    :param has_gpu: its models run on a GPU if there is one, so each of their replicas gets one.
    :param batches: its models have a method ``batches`` for ``--llm-engine batch``, which returns a
        :class:`~pytest_llmprops.models.api.batches.BatchApi`.
    :param remote: its models are called over a network and may cost money. Before a run, their calls and cost are
        printed, and one call checks that they answer.
    :param missing: function that returns what a call needs and this machine lacks, such as a key, as one line; empty if
        nothing is missing. A run whose replies are all stored does not need it.
    :param is_free: its models run on this machine, so a call costs nothing unless the specification has a price.
    :param example: a specification, for lists; capitals stand for what the user fills in. Default: the backend's name.
    :param keys: the environment variables of its keys. :param serves: what the example serves, where that is unknown.
    """

    check: Check
    kinds: KindsOf
    ready: Callable[[ModelSpec], bool] = lambda spec: True
    in_worker: bool = False
    has_gpu: bool = False
    batches: bool = False
    remote: bool = False
    missing: Missing = lambda spec, options: ""
    is_free: bool = False
    example: str = ""
    keys: tuple[str, ...] = ()
    serves: str = ""

    def factory(self, spec: ModelSpec, options: CallOptions) -> Model:
        """Check ``spec`` and create its model.

        :raises ContractError: if the model lacks an attribute.
        """
        return checked_model(self.check(spec, options)())


def _module(name: str, attribute: str = "BACKEND") -> Callable[[], Backend]:
    def load() -> Backend:
        backend: Backend = getattr(importlib.import_module(f"pytest_llmprops.models.{name}"), attribute)
        return backend

    return load


# A module is imported only when one of its models is chosen.
_BUILT_IN: dict[str, Callable[[], Backend]] = {
    "openai": _module("api.openai"),
    "completions": _module("api.completions"),
    "anthropic": _module("api.anthropic"),
    "litellm": _module("api.litellm"),
    "llamacpp": _module("llamacpp"),
    "smollm2": _module("llamacpp", "SMOLLM2"),
    "hf": _module("hf.backend"),
    "jieba": _module("segmenters", "JIEBA"),
    "pkuseg": _module("segmenters", "PKUSEG"),
    "maxmatch": _module("segmenters", "MAXMATCH"),
    "stanza": _module("parsers.stanza"),
    "spacy": _module("parsers.spacy"),
    "words": _module("parsers.base", "WORDS"),
    "first-of": _module("parsers.base", "FIRST_OF_BACKEND"),
    "minilm": _module("hf.backend", "MINILM"),
    "fake": _module("fake"),
}
# Backends with only one model, which are written without a colon.
_ONE_MODEL = ("smollm2", "jieba", "pkuseg", "stanza", "words", "minilm")
registered: dict[str, tuple[Backend, str]] = {}
_ANTHROPIC_NAMES = re.compile(r"claude-", re.IGNORECASE)
_OPENAI_NAMES = re.compile(r"(gpt-|chatgpt|o\d|ft:|codex|computer-use)", re.IGNORECASE)


def always(*kinds: Kind) -> KindsOf:
    """Return the ``kinds`` of a :class:`Backend` whose models all serve the same kinds of request."""
    served = frozenset(kinds)
    return lambda spec: served


def register_model(
    name: str,
    factory: Factory,
    *,
    kinds: Iterable[Kind] = ("chat",),
    in_worker: bool = False,
    remote: bool = False,
) -> None:
    """Register a backend, for ``--model NAME`` or ``--model NAME:MODEL``.

    Call it in a ``conftest.py``. Packages use an entry point of the group ``pytest_llmprops.models`` instead, whose
    object is a :class:`Backend`.

    :param factory: function from the :class:`ModelSpec` and the :class:`CallOptions` to a model, called before the
        first request.
    :param kinds: the kinds of request that its models serve.
    :param in_worker: its models are cheap and deterministic; the pytest processes serve them, without broker and store.
    :param remote: its models are called over a network and may cost money; see :class:`Backend`.
    :raises UsageError: if a built-in backend has this name.
    """
    if name in _BUILT_IN:
        raise UsageError(f"register_model: '{name}' is a built-in backend; choose another name")
    served = {kinds} if isinstance(kinds, str) else set(kinds)
    if not served or not served <= set(KINDS):
        raise UsageError(f"register_model: '{name}' has the kinds {kinds!r}; choose from {', '.join(KINDS)}")
    if not callable(factory):
        raise UsageError(
            f"register_model: the factory of '{name}' is not a function from spec and options to a model"
        )
    made = factory.func if isinstance(factory, partial) else factory
    source = getattr(sys.modules.get(made.__module__), "__file__", None) or ""
    check: Check = lambda spec, options: partial(factory, spec, options)  # noqa: E731
    registered[name] = (Backend(check, always(*served), in_worker=in_worker, remote=remote), source)


def registration_files() -> list[str]:
    """Return the files that register models when they are imported; the broker's process imports them too."""
    return sorted({source for _, source in registered.values() if source})


def import_registrations(files: Sequence[str]) -> None:
    """Import the files of :func:`registration_files` in another process."""
    for number, file in enumerate(files):
        spec = importlib.util.spec_from_file_location(f"_llmprops_models_{number}_{Path(file).stem}", file)
        if spec is None or spec.loader is None:
            raise UsageError(f"{file}: cannot be imported, so its models cannot be registered")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module.__name__] = module
        spec.loader.exec_module(module)


def backend_names() -> list[str]:
    """Return the names of all backends, sorted."""
    return sorted({*_BUILT_IN, *registered, *installed_entry_points()})


def find_backend(name: str) -> Backend:
    """Return the backend called ``name``.

    :raises UsageError: if no backend has this name.
    """
    if name in registered:
        return registered[name][0]
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    if name in installed_entry_points():
        return installed_entry_points()[name]()
    raise UsageError(f"unknown backend '{name}'; choose from {', '.join(backend_names())}")


def parse_spec(text: str, *, base_url: str | None = None) -> ModelSpec:
    """Parse ``NAME[?key=value&...]`` and choose its backend.

    A name before a colon is a backend, or an alias such as ``ollama``. ``smollm2``, ``jieba`` and other backends with
    one model need no colon. Any other name belongs to ``openai`` if it looks like an OpenAI name or there is a base
    URL, to ``anthropic`` if it begins with ``claude-``, and to ``litellm`` if it contains a ``/`` or litellm knows it.

    :raises UsageError: for an unknown backend, or a name that fits none of these rules.
    """
    if text.startswith(f"{FIRST_OF}:"):
        return _first_of(text)
    name, params = split(text)
    text = without_secrets(text)
    head, colon, rest = name.partition(":")
    # Names of models may contain colons: a fine-tuned OpenAI model is called ft:BASE:ORG::ID.
    if (
        colon
        and head != "ft"
        and (head in registered or head in _BUILT_IN or head in installed_entry_points())
    ):
        if not rest:
            raise UsageError(f"--model {text}: a model name is missing after '{head}:'")
        if head in _ONE_MODEL:
            raise UsageError(f"--model {text}: write {head} or {head}?key=value")
        return ModelSpec(text, head, rest, params)
    if head in ALIASES and (rest or not base_url):
        if not rest:
            raise UsageError(
                f"--model {text}: write {head}:MODEL, for example {head}:{ALIASES[head].example}"
            )
        alias = ALIASES[head]
        if alias.provider:
            return ModelSpec(text, alias.backend, f"{alias.provider}/{rest}", params)
        # --llm-base-url replaces the address of a server.
        return ModelSpec(text, alias.backend, rest, params if base_url else {"base_url": alias.url, **params})
    if not colon and (name in registered or name in _ONE_MODEL or name in installed_entry_points()):
        return ModelSpec(text, name, name, params)
    if name in _BUILT_IN:
        raise UsageError(f"--model {text}: write {name}:MODEL")
    if base_url or _OPENAI_NAMES.match(name):
        return ModelSpec(text, "openai", name, params)
    if not colon and _ANTHROPIC_NAMES.match(name):
        return ModelSpec(text, "anthropic", name, params)
    if colon:
        raise UsageError(
            f"--model {text}: unknown backend '{head}'; choose from"
            f" {', '.join(sorted({*backend_names(), *ALIASES}))}{did_you_mean(head, (*backend_names(), *ALIASES))}"
        )
    from pytest_llmprops.models.api.prices import SHIPPED, litellm_entries, read_table

    if "/" in name or name in litellm_entries():
        return ModelSpec(text, "litellm", name, params)
    if os.environ.get("OPENAI_BASE_URL", "").strip():
        raise UsageError(
            f"--model {text}: unknown model; write openai:{name} for the server of OPENAI_BASE_URL, which a name alone"
            " does not use"
        )
    family = f"{name.partition('-')[0]}-"
    for known, alias in ALIASES.items():
        if alias.example.startswith(family):
            raise UsageError(f"--model {text}: unknown model; write {known}:{name}")
    raise UsageError(
        f"--model {text}: unknown model; write openai:{name} with --llm-base-url URL for an"
        f" OpenAI-compatible server, litellm:PROVIDER/{name}, hf:{name}, llamacpp:FILE.gguf,"
        f" or one of {', '.join(backend_names())}; 'llmprops list models' lists what each needs"
        + did_you_mean(name, (*backend_names(), *read_table(SHIPPED)))
    )


def _first_of(text: str) -> ModelSpec:
    """Parse ``first-of:PARSER,PARSER``; each part may have parameters."""
    texts = text.removeprefix(f"{FIRST_OF}:").split(",")
    if not all(texts) or len(texts) < 2:
        raise UsageError(f"--model {text}: write {FIRST_OF}:PARSER,PARSER")
    return together([parse_spec(part) for part in texts])


def together(parts: Sequence[ModelSpec]) -> ModelSpec:
    """Return the ``first-of`` specification of these parsers; a single parser is returned as it is."""
    if len(parts) == 1:
        return parts[0]
    name = ",".join(part.text for part in parts)
    return ModelSpec(f"{FIRST_OF}:{name}", FIRST_OF, name, parts=tuple(parts))


def available_default(texts: Sequence[str]) -> ModelSpec | None:
    """Return the specification of the default models of a helper that this machine has; None if it has none."""
    available: dict[str, ModelSpec] = {}
    for spec in map(parse_spec, texts):
        # Use only the first model of each backend, so that runs on different machines are more alike.
        if spec.backend not in available and find_backend(spec.backend).ready(spec):
            available[spec.backend] = spec
    return together(list(available.values())) if available else None


@cache
def installed_entry_points() -> dict[str, Callable[[], Backend]]:
    """Return name -> the function that loads the backend, of the installed packages that have one."""
    return {point.name: point.load for point in entry_points(group=ENTRY_POINTS)}
