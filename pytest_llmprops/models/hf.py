"""``hf:REPO_OR_FOLDER``: models of the transformers library, from a folder or a hub repository.

Parameters: ``kind`` (by default from the architecture in ``config.json``), ``revision``, ``dtype``,
``device``, ``batch`` (rows evaluated together; 8 on a CPU, 64 on a GPU), ``gguf_file`` (weights and
tokenizer from a GGUF file of the folder or repository), ``seed``; for ``kind=sentiment`` also
``positive_label`` (name or index of the positive class, where the names do not say it) and ``mask`` (what
stands for ``[MASK]`` where the tokenizer has no mask token); for ``kind=translate`` ``source_code``,
``target_code`` (the model's own codes of the languages), ``beams`` and ``max_new_tokens``; for
``kind=embed`` ``layer`` (which hidden states). Code that a repository ships is never run.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.requests import Kind
from pytest_llmprops.models.base import BackendOptions, Model
from pytest_llmprops.models.hf_chat import HfChatModel
from pytest_llmprops.models.hf_embed import HfEmbedModel
from pytest_llmprops.models.hf_fill_mask import HfFillMaskModel
from pytest_llmprops.models.hf_segment import HfSegmentModel, label_letters
from pytest_llmprops.models.hf_sentiment import HfSentimentModel, positive_index
from pytest_llmprops.models.hf_translate import MAX_NEW_TOKENS, HfTranslateModel
from pytest_llmprops.models.local import file_sha256, files_sha256, whole_number
from pytest_llmprops.models.registry import Backend, Maker
from pytest_llmprops.models.spec import ModelSpec

# Parameters of one kind alone, and that kind.
_OF_KIND: Mapping[str, Kind] = {
    "positive_label": "sentiment",
    "mask": "sentiment",
    "source_code": "translate",
    "target_code": "translate",
    "beams": "translate",
    "max_new_tokens": "translate",
    "layer": "embed",
}
PARAMETERS = ("kind", "revision", "dtype", "device", "batch", "gguf_file", "seed", *_OF_KIND)
# What loads the models of a kind, in the order in which messages name the kinds.
_LOADERS: Mapping[Kind, str] = {
    "chat": "AutoModelForCausalLM",
    "segment": "AutoModelForTokenClassification",
    "sentiment": "AutoModelForSequenceClassification",
    "translate": "AutoModelForSeq2SeqLM",
    "fill-mask": "AutoModelForMaskedLM",
    "embed": "AutoModel",
}
# What the tokenizers of a type of model need: Marian's cleans punctuation with sacremoses, where it is there.
_TOKENIZER_PACKAGES: Mapping[str, tuple[str, ...]] = {
    "marian": ("sentencepiece", "sacremoses"),
    "m2m_100": ("sentencepiece",),
}
# The least value of each parameter that is a whole number.
_LEAST: Mapping[str, int] = {"seed": 0, "batch": 1, "beams": 1, "max_new_tokens": 1, "layer": 0}
_DTYPES = ("auto", "float32", "bfloat16", "float16")
# The first pattern that an architecture's name contains decides.
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
    """Where a model's files are, and what pins them.

    :param path: what the library loads: a folder or a repository's name. :param commit: of a repository.
    :param pin: returns what identifies the files; of a folder it reads them all.
    """

    path: str
    config: Mapping[str, Any] | None
    pin: Callable[[], Mapping[str, str]]
    is_folder: bool
    commit: str | None = None


def kind_of(config: Mapping[str, Any] | None) -> Kind:
    """The kind of request that a model of this ``config.json`` serves; chat without one (GGUF)."""
    for name in (config or {}).get("architectures") or ():
        for pattern, kind in _KINDS:
            if re.search(pattern, name):
                return kind
        return "embed"
    return "chat"


def kinds(spec: ModelSpec) -> frozenset[Kind]:
    """The kind that ``spec`` states, or that of a model whose files are on this machine; else chat."""
    if "kind" in spec.params:
        return frozenset({_stated_kind(spec)})
    folder = Path(spec.name).expanduser()
    if "gguf_file" in spec.params:
        return frozenset({"chat"})
    if folder.is_dir():
        return frozenset({kind_of(_read_config(spec, folder / "config.json"))})
    if importlib.util.find_spec("huggingface_hub") is not None and _is_repository(spec.name):
        hub: Any = importlib.import_module("huggingface_hub")
        found = hub.try_to_load_from_cache(spec.name, "config.json", revision=spec.params.get("revision"))
        if isinstance(found, str):
            return frozenset({kind_of(_read_config(spec, Path(found)))})
    return frozenset({"chat"})


def _stated_kind(spec: ModelSpec) -> Kind:
    for kind in _LOADERS:
        if spec.params["kind"] == kind:
            return kind
    raise UsageError(f"--model {spec.text}: kind must be one of {', '.join(_LOADERS)}")


def _is_repository(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+(/[\w.-]+)?", name) is not None


def _read_config(spec: ModelSpec, file: Path) -> Mapping[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(
            f"--model {spec.text}: {file.parent} has no config.json; give a folder saved by transformers,"
            " or add ?gguf_file=NAME.gguf"
        ) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--model {spec.text}: {file} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise UsageError(f"--model {spec.text}: {file} is not a JSON object")
    return config


def find_source(spec: ModelSpec) -> Source:
    """Find the files of ``spec``: a folder, or a repository's configuration in the cache or on the hub.

    :raises UsageError: when they cannot be had.
    """
    folder = Path(spec.name).expanduser()
    gguf = spec.params.get("gguf_file")
    if folder.is_dir():
        if gguf is not None:
            if not (folder / gguf).is_file():
                raise UsageError(f"--model {spec.text}: there is no file {folder / gguf}")
            weights = folder / gguf
            return Source(str(folder), None, lambda: {"files_sha256": file_sha256(weights)}, is_folder=True)
        config = _read_config(spec, folder / "config.json")
        kinds_of_file = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt")
        files = [file for pattern in kinds_of_file for file in folder.glob(pattern)]
        return Source(str(folder), config, lambda: {"files_sha256": files_sha256(files)}, is_folder=True)
    if not _is_repository(spec.name):
        raise UsageError(f"--model {spec.text}: there is no folder {folder}; give a model's folder")
    hub: Any = importlib.import_module("huggingface_hub")
    revision = spec.params.get("revision")
    try:
        file = Path(hub.hf_hub_download(spec.name, gguf or "config.json", revision=revision))
    except Exception as error:
        raise UsageError(
            f"--model {spec.text}: '{spec.name}' is no folder here, and {_why_not(error)};"
            " give the folder of a downloaded model: hf:FOLDER"
        ) from None
    # A download lies in .../snapshots/COMMIT/NAME.
    commit = file.parts[file.parts.index("snapshots") + 1] if "snapshots" in file.parts else None
    config_of_repository = None if gguf is not None else _read_config(spec, file)
    pin = {"repository": spec.name, "revision": commit or revision or ""}
    return Source(spec.name, config_of_repository, lambda: pin, is_folder=False, commit=commit or revision)


def _why_not(error: Exception) -> str:
    """What an error of the hub's client means, in a few words."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if "LocalEntryNotFoundError" in names or "OfflineModeIsEnabled" in names:
        return "the hub cannot be reached (offline)"
    if "GatedRepoError" in names:
        return "the hub gives it only to those who accepted its terms (set HF_TOKEN)"
    if "RepositoryNotFoundError" in names:
        return "the hub has no such public repository"
    if "RevisionNotFoundError" in names:
        return "the hub's repository has no such revision"
    if "EntryNotFoundError" in names:
        return "the hub's repository has no such file"
    return "the hub gives an error: " + " ".join(str(error).split())[:200]


def _device(spec: ModelSpec) -> str:
    torch: Any = importlib.import_module("torch")
    wanted = spec.params.get("device", "auto")
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise UsageError(f"--model {spec.text}: device must be auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--model {spec.text}: torch sees no CUDA device; use device=cpu")
    return wanted


def _need(spec: ModelSpec, packages: Iterable[str]) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(f"--model {spec.text}", package=package, extra="hf")


def check(spec: ModelSpec, options: BackendOptions, *, name: str = "") -> Maker:
    """Check a specification and return what makes its model.

    :param name: as tables call it; "" for that of its folder or repository.
    :raises UsageError: in one line, for a model that cannot be had.
    """
    spec.only(*PARAMETERS)
    packages = ["torch", "transformers", *(["gguf", "accelerate"] if "gguf_file" in spec.params else [])]
    _need(spec, packages)
    dtype = spec.params.get("dtype", "")
    if dtype and dtype not in _DTYPES:
        raise UsageError(f"--model {spec.text}: dtype must be one of {', '.join(_DTYPES)}")
    stated = _stated_kind(spec) if "kind" in spec.params else None
    source = find_source(spec)
    kind = stated or kind_of(source.config)
    for key, of_kind in _OF_KIND.items():
        if key in spec.params and kind != of_kind:
            raise UsageError(
                f"--model {spec.text}: {key} is a parameter of kind={of_kind}, this is kind={kind}"
            )
    if kind == "translate":
        _need(spec, _TOKENIZER_PACKAGES.get((source.config or {}).get("model_type", ""), ()))
    positive, letters = 0, ""
    try:
        if kind == "sentiment":
            positive = positive_index(source.config or {}, spec.params.get("positive_label"))
        if kind == "segment":
            letters = label_letters(source.config or {})
    except UsageError as error:
        raise UsageError(f"--model {spec.text}: {error}") from None
    for key, least in _LEAST.items():
        whole_number(spec, key, least, least=least)
    # What is not stated only torch knows, which takes seconds to import.
    device = _device(spec) if "device" in spec.params else ""
    return lambda: _make(spec, source, kind, device or _device(spec), positive, letters, name)


def _make(
    spec: ModelSpec, source: Source, kind: Kind, device: str, positive: int, letters: str, name: str
) -> Model:
    """Make a model whose specification was checked."""
    seed = whole_number(spec, "seed", 0, least=0)
    pin = source.pin()
    on_gpu = device.startswith("cuda")
    # A CPU computes in 32 bits faster and more exactly; a GPU takes the type of the weights.
    # Scores that are compared strictly need 32 bits everywhere: shorter ones make false ties.
    dtype = spec.params.get("dtype") or ("auto" if on_gpu and kind in ("chat", "translate") else "float32")
    gguf = {"gguf_file": spec.params["gguf_file"]} if "gguf_file" in spec.params else {}
    where = gguf | ({"revision": source.commit} if source.commit else {})

    def load() -> tuple[Any, Any]:
        transformers: Any = importlib.import_module("transformers")
        transformers.logging.set_verbosity_error()
        # Progress bars of several libraries, none of which can be switched off alone.
        with contextlib.redirect_stderr(io.StringIO()):
            tokenizer = transformers.AutoTokenizer.from_pretrained(source.path, **where)
            model, loading = getattr(transformers, _LOADERS[kind]).from_pretrained(
                source.path, dtype=dtype, trust_remote_code=False, output_loading_info=True, **where
            )
        # Vectors are taken before a pooling layer, which many files lack.
        missing = sorted(key for key in loading["missing_keys"] if kind != "embed" or "pooler." not in key)
        if kind != "chat" and missing:
            # The library would go on with random numbers in their place.
            raise ValueError(f"its files lack the weights of {', '.join(missing[:3])}")
        return model.to(device).eval(), tokenizer

    settings: dict[str, Any] = {
        "name": name or (Path(source.path).name if source.is_folder else spec.name),
        "identity": {
            "backend": "hf",
            "kind": kind,
            **pin,
            **gguf,
            "dtype": dtype,
            "device": "cuda" if on_gpu else device,
            "seed": seed,
        },
        "pinned": source.is_folder or source.commit is not None,
        "batch": whole_number(spec, "batch", 64 if on_gpu else 8, least=1),
    }
    if kind == "sentiment":
        mask = spec.params.get("mask", "")
        settings["identity"] |= {"positive": positive} | ({"mask": mask} if mask else {})
        return HfSentimentModel(load, positive=positive, mask=mask, **settings)
    if kind == "translate":
        chosen: dict[str, Any] = {
            "beams": whole_number(spec, "beams", 1, least=1),
            "max_new_tokens": whole_number(spec, "max_new_tokens", MAX_NEW_TOKENS, least=1),
            "source_code": spec.params.get("source_code"),
            "target_code": spec.params.get("target_code"),
        }
        settings["identity"] |= {key: value for key, value in chosen.items() if value is not None}
        return HfTranslateModel(load, **chosen, **settings)
    if kind == "embed":
        layer = whole_number(spec, "layer", 0, least=0) if "layer" in spec.params else None
        settings["identity"] |= {} if layer is None else {"layer": layer}
        return HfEmbedModel(load, layer=layer, **settings)
    if kind == "fill-mask":
        return HfFillMaskModel(load, **settings)
    if kind == "segment":
        return HfSegmentModel(load, letters=letters, **settings)
    return HfChatModel(load, seed=seed, **settings)


BACKEND = Backend(check, kinds)
