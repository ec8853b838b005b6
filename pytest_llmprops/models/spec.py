"""A model specification, ``NAME[?key=value&...]``: its parts, addresses, replicas and files; variables of ``.env``."""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from pytest_llmprops.core.errors import MissingExtra, UsageError
from pytest_llmprops.core.texts import one_line

# Base URLs with a user and a password: ``http://USER:PASSWORD@HOST``. Only the Authorization header may have
# them.

# The first form also covers a password with / or @, which a URL must not have. %3A, %2F and %40 occur in parameters.
_USER = re.compile(
    r"(?i)(https?://)"
    r"(?:[^\s/?#@:,]*:(?!\d+(?:[/?#,]|$))(?:(?!,https?://)\S)*|[^\s/?#]*)(?:@|%40)"
    r"|(https?%3a%2f%2f)(?:(?!%2f|[\s&])\S)*(?:@|%40)"
)


_QUERY = re.compile(r"(?i)(https?(?:://|%3a%2f%2f)(?:(?!%3f)[^\s?#,&])*)(?:\?|%3f)([^\s,]*)")


def without_secrets(text: str) -> str:
    """Return a text, such as an argument of a command, without users, passwords and queries of web addresses."""

    def without_query(match: re.Match[str]) -> str:
        # In a specification, & begins the next parameter of the model.
        rest = match[2].partition("&") if "base_url=" in match.string[: match.start()] else ("", "", "")
        return match[1] + rest[1] + rest[2]

    return _QUERY.sub(without_query, _USER.sub(lambda match: match[1] or match[2], text))


def normalised_url(url: str, where: str = "--llm-base-url") -> str:
    """Return a base URL for the record: scheme, host, port and path, without user, password and query.

    :param where: how an error names the URL.
    :raises UsageError: if it is not an http or https address.
    """
    try:
        parts = urlsplit(url.strip())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = one_line(without_secrets(url), 300)
        raise UsageError(f"{where} {shown}: write http://HOST:PORT/v1 or https://HOST/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def split_user(url: str) -> tuple[str, str]:
    """Return (URL without user and password, ``USER:PASSWORD``); the second is empty if the URL has none."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    name, _, password = user.partition(":")
    return urlunsplit(parts._replace(netloc=host)), f"{unquote(name)}:{unquote(password)}"


def split_query(url: str) -> tuple[str, dict[str, str]]:
    """Return (URL without query, its parameters), such as Azure's ``?api-version=``."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(query="", fragment="")), dict(parse_qsl(parts.query))


def basic(user: str) -> str:
    """Return the value of an Authorization header for ``USER:PASSWORD`` (RFC 7617)."""
    return f"Basic {base64.b64encode(user.encode()).decode('ascii')}"


def secrets_of(user: str) -> tuple[str, ...]:
    """Return the texts by which ``USER:PASSWORD`` could be recognised: the password, and the header's value."""
    password = user.partition(":")[2]
    return tuple(filter(None, (password, basic(user).removeprefix("Basic ") if user else "")))


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A parsed model specification.

    :param text: the specification as the user wrote it, without users, passwords and queries of web addresses.
    :param backend: the backend's name in the registry.
    :param name: the backend's name for the model (repository, file, API name).
    :param params: the parameters after ``?``.
    :param parts: the combined models, if the backend combines several.
    """

    text: str
    backend: str
    name: str
    params: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[ModelSpec, ...] = ()

    @property
    def label(self) -> str:
        """The short ASCII name of the model for node ids, folders and tables."""
        base = self.name.rstrip("/").rsplit("/", 1)[-1] or self.backend
        if self.parts or base.startswith("ft:"):
            # The last parser, and the id of a fine-tuned model: ft:BASE:ORG::ID.
            base = base.rsplit(":", 1)[-1] or self.backend
        if self.backend in ("llamacpp", "maxmatch"):
            base = base.rsplit(".", 1)[0]
        if self.backend == "fake":
            base = f"fake-{base}"
        base += "".join(f"-{k}={v}" for k, v in sorted(self.params.items()) if k not in ("base_url", "as"))
        return re.sub(r"[^A-Za-z0-9._=-]+", "_", base)

    def error(self, text: str) -> UsageError:
        """Return the error of this specification."""
        return UsageError(f"--model {self.text}: {text}")

    def require(self, package: str, *, extra: str) -> Path:
        """Return the file of an installed package, which is not imported.

        :raises MissingExtra: if it is not installed. ``extra`` installs it.
        """
        found = importlib.util.find_spec(package.replace("-", "_"))
        if found is None:
            raise MissingExtra(f"--model {self.text}", package=package, extra=extra)
        return Path(found.origin or "")

    def number(self, key: str) -> float | None:
        """Return a numeric parameter, or None if it is absent.

        :raises UsageError: if it is not a finite number.
        """
        if key not in self.params:
            return None
        try:
            value = float(self.params[key])
        except ValueError:
            value = nan
        if not isfinite(value):
            raise self.error(f"{key} must be a number")
        return value

    def only(self, *known: str) -> None:
        """Check that all parameters are in ``known``.

        :raises UsageError: if one is not.
        """
        for key in self.params:
            if key not in known:
                raise self.error(
                    f"'{key}' is not a parameter of {self.backend}; it takes {', '.join(known) or 'none'}"
                )


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split ``NAME?key=value`` into (NAME, {key: value}).

    :raises UsageError: if the name is missing or the parameters are malformed.
    """
    name, mark, query = text.partition("?")
    if not name:
        raise UsageError(f"--model {text!r}: a model name is missing before '?'")
    pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=False)
    if mark and (not query or any("=" not in part for part in query.split("&"))):
        raise UsageError(f"--model {without_secrets(text)}: write parameters as NAME?key=value&key=value")
    return name, dict(pairs)


_hashes: dict[tuple[str, int, int], str] = {}


def file_sha256(file: Path) -> str:
    """Return the sha256 of a file. The process caches it as long as the file's size and date stay the same."""
    stat = file.stat()
    key = (str(file), stat.st_size, stat.st_mtime_ns)
    if key not in _hashes:
        with file.open("rb") as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]


def files_sha256(files: Iterable[Path], folder: Path | None = None) -> str:
    """Return one sha256 over the names and contents of several files, independent of their order.

    :param folder: their names are the paths relative to it; without it, those in their own folders.
    """
    names = {file: file.relative_to(folder).as_posix() if folder else file.name for file in files}
    lines = sorted(f"{name} {file_sha256(file)}" for file, name in names.items())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def torch_device(spec: ModelSpec) -> str:
    """Return the device that torch uses for a model; ``auto``, the default, is a GPU if there is one.

    :raises UsageError: if the parameter ``device`` names none, or a GPU on a machine without one.
    """
    name = spec.params.get("device", "auto")
    if name == "cpu":
        return name
    torch: Any = importlib.import_module("torch")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise spec.error("device must be auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise spec.error("torch sees no CUDA device; use device=cpu")
    return name


def whole_number(spec: ModelSpec, key: str, default: int, *, minimum: int) -> int:
    """Return a parameter as a whole number, or ``default`` if it is absent.

    :raises UsageError: if the value is not a whole number of at least ``minimum``.
    """
    value = spec.number(key)
    if value is None:
        return default
    if not value.is_integer() or value < minimum:
        raise spec.error(f"{key} must be a whole number of at least {minimum}, not {spec.params[key]}")
    return int(value)


# ``?replicas=N&gpus=G&cpus=C``: how many actors of a Ray cluster serve a model, and what each of them
# reserves.

PARAMETERS = ("replicas", "gpus", "cpus")


@dataclass(frozen=True, slots=True)
class Replicas:
    """What a specification says about replicas; None: chosen by the cluster.

    :param count: number of replicas. :param gpus: GPUs of each. :param cpus: CPU cores of each.
    """

    count: int | None = None
    gpus: float | None = None
    cpus: float | None = None


def split_replicas(spec: ModelSpec) -> tuple[ModelSpec, Replicas | None]:
    """Return the specification without the parameters of replicas, and these; None if there are none.

    The parameters say where a model runs. They change no reply, so they belong neither to its label
    nor to its identity.

    :raises UsageError: if a value is not a number that makes sense.
    """
    if not any(name in spec.params for name in PARAMETERS):
        return spec, None
    gpus = _amount(spec, "gpus", is_zero_allowed=True)
    cpus = _amount(spec, "cpus", is_zero_allowed=False)
    count = whole_number(spec, "replicas", 1, minimum=1) if "replicas" in spec.params else None
    name, _, query = spec.text.partition("?")
    rest = [part for part in query.split("&") if part.partition("=")[0] not in PARAMETERS]
    params = {key: value for key, value in spec.params.items() if key not in PARAMETERS}
    bare = replace(spec, text="?".join([name, "&".join(rest)] if rest else [name]), params=params)
    return bare, Replicas(count, gpus, cpus)


def _amount(spec: ModelSpec, key: str, *, is_zero_allowed: bool) -> float | None:
    value = spec.number(key)
    if value is None:
        return None
    # Ray divides devices, but does not give an actor one and a half of them.
    if value < 0 or (value > 1 and not value.is_integer()) or (value == 0 and not is_zero_allowed):
        least = "0, " if is_zero_allowed else ""
        raise spec.error(f"{key} must be {least}a whole number or a part of 1, not {spec.params[key]}")
    return value


def read_dotenv() -> str:
    """Set the variables of the first ``.env`` in this folder and those above it, and return one line about it.

    A variable that is set keeps its value. The line names the variables, never their values; it is empty if none was
    set.
    """
    folders = (Path.cwd(), *Path.cwd().parents)
    path = next((folder / ".env" for folder in folders if (folder / ".env").is_file()), None)
    # Importing the package takes longer than looking for the file.
    if path is None:
        return ""
    from dotenv import load_dotenv

    before = set(os.environ)
    load_dotenv(path)
    added = sorted(set(os.environ) - before)
    return f"{', '.join(added)} from {os.path.relpath(path)}" if added else ""
