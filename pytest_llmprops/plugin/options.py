"""Command-line options, their ini keys, and the values that they take: read from text, or refused."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.items import LIMITED_SIZES, Shard
from pytest_llmprops.core.requests import MAX_THINKING

if TYPE_CHECKING:
    from pytest_llmprops.models.base import CallOptions

ENGINES = ("local", "batch", "ray")
_encode = json.JSONEncoder(allow_nan=False).encode


def text(value: str) -> str:
    """Return a text that is not empty."""
    if not value:
        raise ValueError("must not be empty")
    return value


def _number(kind: type[int | float], least: int, *, is_above: bool = False) -> Callable[[str], Any]:
    """Return a function that reads a finite number of at least ``least``, or above it."""

    def parse(value: str) -> int | float:
        number = kind(value)
        if not least <= number < float("inf") or (is_above and number == least):
            what = "a whole number" if kind is int else "a number"
            raise ValueError(f"must be {what} {'above' if is_above else 'of at least'} {least}")
        return number

    return parse


positive, count = _number(int, 1), _number(int, 0)
amount, seconds = _number(float, 0, is_above=True), _number(float, 0)


def age(value: str) -> float:
    """Return the seconds of a time such as ``24h``, ``30m`` or ``7d``; a number alone is in hours."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    number, unit = (value[:-1], units[value[-1]]) if value[-1:] in units else (value, 3600)
    if not 0 <= float(number) < float("inf"):
        raise ValueError("must be a time such as 24h, 30m or 7d")
    return float(number) * unit


def parse_url(value: str) -> str:
    """Return an address, or several separated by commas, as it is written."""
    if not all(one.strip().startswith(("http://", "https://")) for one in value.split(",")):
        raise ValueError("must begin with http:// or https://")
    return value


def parse_engine(value: str) -> str:
    """Return an engine as it is written."""
    if value not in ENGINES and not re.fullmatch(r"ray://[^/?#\s]+:\d+", value):
        raise ValueError(f"must be one of {', '.join(ENGINES)}, ray://HOST:PORT")
    return value


def pairs(values: Sequence[str]) -> dict[str, str]:
    """Return the pairs of texts ``NAME=VALUE``."""
    texts = {}
    for value in values:
        name, _, text = value.partition("=")
        if not (name.strip() and text):
            raise ValueError(f"'{value}' must be NAME=VALUE")
        texts[name.strip()] = text
    return texts


#: the parameters that a protocol also sets, with the types of their values; servers check the others
_PARAMS: dict[str, tuple[tuple[type, ...], str]] = {
    "temperature": ((int, float), "a number"),
    "max_tokens": ((int,), "a whole number"),
    "stop": ((str, list), "a text or a list of texts"),
}


class _SecretValue(ValueError):
    """An option has a value that no message may show."""


def parse_params(values: Sequence[str]) -> dict[str, Any]:
    """Return the values of ``--llm-param``: JSON, or text."""

    def value_of(text: str) -> Any:
        try:
            value = json.loads(text)
        except ValueError:
            return text
        try:
            _encode(value)
        except ValueError:
            # NaN, or a number too large for a float, also inside a list or an object.
            raise ValueError(f"'{text}' must be a finite number") from None
        return value

    found = {name: value_of(text) for name, text in pairs(values).items()}
    for name in secret_names(found):
        raise _SecretValue(
            f"{name} looks like a key or a header, and parameters are recorded; set the provider's environment"
            " variable, such as OPENAI_API_KEY, or use --llm-header NAME=$VARIABLE"
        )
    for name, (kinds, what) in _PARAMS.items():
        value = found.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise ValueError(f"{name} must be {what}")
    return found


_SECRET_NAME = re.compile(
    r"(?:^|[-_.])(?:api|access|auth|secret|private|subscription|bearer|session|refresh|id)[-_]?(?:key|token)s?$"
    r"|^(?:x[-_])?(?:key|token|secret|password|passwd|authorization|credentials?|cookie)$"
    r"|[-_](?:secret|password|credentials?)$|headers?$|^apikey$",
    re.IGNORECASE,
)


def secret_names(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of parameters, also of inner ones, that look like those of keys or headers."""
    for name, value in values.items():
        if _SECRET_NAME.search(name):
            yield name
        elif isinstance(value, Mapping):
            yield from secret_names(value)


def parse_headers(values: Sequence[str]) -> dict[str, str]:
    """Return the headers of ``--llm-header``; ``$NAME`` takes a value from the environment."""
    found = {}
    for position, value in enumerate(values, start=1):
        name, _, text = value.partition("=")
        # The message must not show a value.
        if not _HEADER_NAME.fullmatch(name.strip()) or not text:
            raise ValueError(f"header {position} must be NAME=VALUE, such as api-key=$AZURE_API_KEY")
        if text.startswith("$"):
            if not os.environ.get(text[1:]):
                raise ValueError(f"{name}: the environment variable {text[1:]} is not set")
            text = os.environ[text[1:]]
        if not (text.isascii() and text.isprintable()):
            raise ValueError(f"{name}: the value has characters that are not allowed in a header")
        found[name.strip()] = text
    for name in (name for name, text in found.items() if text == _NOT_SHOWN):
        raise ValueError(
            f"{name}: a record has no values of headers; give it again: --llm-header {name}=VALUE"
        )
    return found


_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: the value of a header in a record
_NOT_SHOWN = "***"
_INI_HEADER = re.compile(r"llm_header\s*=.*", re.DOTALL)


class Confirm(NamedTuple):
    """The cost and the number of calls above which a run needs a confirmation; None: not limited."""

    usd: float | None = None
    calls: int | None = None

    def __str__(self) -> str:
        parts = [] if self.usd is None else [f"{self.usd:g} USD"]
        return ", ".join(parts if self.calls is None else [*parts, f"{self.calls} calls"])


_LIMIT = re.compile(r"(\d+(?:\.\d+)?) *(USD|calls)", re.IGNORECASE)


def parse_confirm(value: str) -> Confirm:
    """Return the limits of ``5 USD, 20000 calls``; none for ``off``."""
    if value.strip().lower() == "off":
        return Confirm()
    limits: dict[str, float] = {}
    for part in value.split(","):
        match = _LIMIT.fullmatch(part.strip())
        if match is None or match[2].lower() in limits:
            raise ValueError("write a cost, a number of calls or both, such as 5 USD, 20000 calls, or off")
        limits[match[2].lower()] = float(match[1])
    calls = limits.get("calls")
    return Confirm(limits.get("usd"), None if calls is None else int(calls))


def parse_sets(values: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the settings of texts ``BENCHMARK.FIELD=VALUE``, by benchmark."""
    settings: dict[str, dict[str, str]] = {}
    for name, text in pairs(values).items():
        benchmark, _, field = name.partition(".")
        if not (benchmark and field):
            raise ValueError(f"'{name}={text}' must be BENCHMARK.FIELD=VALUE")
        settings.setdefault(benchmark, {})[field] = text
    return settings


def parse_shard(value: str) -> Shard:
    """Return the shard ``I/N``."""
    number, _, total = value.partition("/")
    if not (number.isascii() and number.isdigit() and total.isascii() and total.isdigit()):
        raise ValueError("must be I/N, such as 3/16")
    found = Shard(int(number), int(total))
    if not 1 <= found.number <= found.total:
        raise ValueError("I must be from 1 to N")
    return found


def parse_store(value: str) -> Any:
    """Return the file or the URL of a store."""
    # Without --model, nothing of the engine is imported.
    from pytest_llmprops.engine.store.location import store_location

    return store_location(value)


def redacted(value: str) -> str:
    """Return a text without the password of a URL."""
    from pytest_llmprops.engine.store.location import without_password
    from pytest_llmprops.models.spec import without_secrets

    return without_secrets(without_password(value))


def parse_models(values: Sequence[str]) -> tuple[str, ...]:
    """Return the specifications of the models."""
    if any(not value.strip() for value in values):
        raise ValueError("must name a model, for example --model smollm2")
    if len(set(values)) < len(values):
        raise ValueError("names a model twice")
    for name in (value.partition("?")[0] for value in values):
        # A file's name may have a comma, and so has the list of parsers of one helper.
        is_list = "," in name and not name.startswith("first-of:")
        if is_list and not Path(name.partition(":")[2] or name).exists():
            repeated = " ".join(f"--model {one.strip()}" for one in name.split(","))
            raise ValueError(f"each model needs its own option: {repeated}")
    return tuple(values)


SIZES = (*LIMITED_SIZES, "full")
#: calls of all suites with ``--llm-size small``, the built-in items and the default helpers, if nothing is stored
SMALL_CALLS = 1_508


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or a setting that is only an ini key.

    :param parse: returns the value of the option's text, or of its list of texts; raises ValueError.
    :param is_ini_only: the command line sets it with ``-o KEY=VALUE``.
    """

    name: str
    parse: Callable[[Any], Any]
    help: str
    metavar: str = ""
    default: Any = None
    choices: tuple[str, ...] = ()
    is_ini_only: bool = False

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")

    @property
    def names(self) -> tuple[str, ...]:
        """Its names on the command line, first the one that help and messages use."""
        return ("--model", "--llm-model") if self.name == "llm-model" else (f"--{self.name}",)

    @property
    def is_flag(self) -> bool:
        return self.parse is bool

    @property
    def is_repeatable(self) -> bool:
        return self.default in ((), {})

    def word(self, value: object) -> str:
        """Return the word of a command that gives the value."""
        return f"--override-ini={self.dest}={value}" if self.is_ini_only else f"--{self.name}={value}"


def _option(
    parse: Callable[[Any], Any], description: str, metavar: str = "", default: Any = None, **more: Any
) -> Any:
    return field(
        metadata={"parse": parse, "help": description, "metavar": metavar, "default": default, **more}
    )


def _flag(description: str) -> Any:
    return _option(bool, description, default=False)


_ini_key = partial(_option, is_ini_only=True)


# Without a repr: headers may have keys, and the store's URL a password.
@dataclass(frozen=True, slots=True, repr=False)
class RunOptions:
    """The options of a session.

    The option of a field is ``--llm-`` and its name, in the singular if it is repeatable.
    """

    models: tuple[str, ...] = _option(
        parse_models, "model to measure: NAME[?key=value&...]; repeatable", "SPEC", ()
    )
    helpers: Mapping[str, str] = _option(
        pairs, "helper model for one role, such as reader, parse or embed; repeatable", "ROLE=SPEC", {}
    )
    base_url: str | None = _option(
        parse_url,
        "base URL of an OpenAI-compatible server, usually ending in /v1; of several servers, separated by commas",
        "URL",
    )
    headers: Mapping[str, str] = _option(
        parse_headers,
        "header of each call, such as the key of a gateway; $NAME takes the value from the environment; no value is"
        " recorded; repeatable",
        "NAME=VALUE",
        {},
    )
    max_thinking: int = _ini_key(
        count,
        "tokens that a model may get for thoughts beyond the limit of a request (default: 32768)",
        "TOKENS",
        MAX_THINKING,
    )
    concurrency: int = _option(
        positive, "maximum number of calls in flight, over all workers (default: 64)", "N", 64
    )
    engine: str = _option(
        parse_engine,
        "how requests are sent: local (default) makes calls; batch uses the provider's batches, at half the price; ray"
        " and ray://HOST:PORT run replicas of a local model in a Ray cluster",
        "ENGINE",
        "local",
    )
    batch_wait: float | None = _ini_key(
        seconds,
        "how long to wait for batches (default: until all are done); then the run ends with status 2, and the same"
        " command resumes it",
        "SECONDS",
    )
    rpm: float | None = _ini_key(
        amount, "maximum number of calls per minute and model (default: as many as the server serves)", "N"
    )
    timeout: float = _option(amount, "timeout of one call, in seconds (default: 120)", "SECONDS", 120.0)
    retries: int = _ini_key(count, "number of retries after a failed call (default: 4)", "N", 4)
    params: Mapping[str, Any] = _option(
        parse_params, "request parameter that overrides the protocol's value; repeatable", "NAME=VALUE", {}
    )
    limit: int | None = _option(
        positive, "number of items per task and language (eras, dtails: per cluster; default: all)", "N"
    )
    size: str = _option(
        text,
        f"number of items: small, standard or full (default); small is {SMALL_CALLS:,} calls in all suites",
        "SIZE",
        "full",
        choices=SIZES,
    )
    shard: Shard | None = _option(
        parse_shard,
        "part I of N of the selected items; 'llmprops runs merge' combines the N runs; clusters stay whole",
        "I/N",
    )
    repeats: int = _option(
        positive, "number of samples of each item, each with its own calls and verdict (default: 1)", "N", 1
    )
    seed: int = _option(int, "seed of all random choices (default: 0)", "N", 0)
    source: str = _ini_key(
        text,
        "source of the items: builtin (default), published (default with --llm-data) or all",
        "SOURCE",
        "builtin",
        choices=("builtin", "published", "all"),
    )
    data: Path | None = _option(
        Path, "folder of published or generated data, whose items are measured", "DIR"
    )
    protocol: str = _option(
        text, "named settings of each benchmark: quick (default) or paper", "NAME", "quick"
    )
    sets: Mapping[str, Mapping[str, str]] = _option(
        parse_sets, "change one setting of a protocol; repeatable", "BENCHMARK.FIELD=VALUE", {}
    )
    cache: Any = _option(
        text,
        "use of stored replies: reuse (default), refresh, off or only",
        "MODE",
        "reuse",
        choices=("reuse", "refresh", "off", "only"),
    )
    cache_age: float | None = _ini_key(
        age,
        "maximum age of a stored reply of an unpinned model: 24h, 7d (default: 24h with a gate, otherwise no limit)",
        "TIME",
    )
    store: str | None = _option(
        parse_store,
        "reply store: a file, or postgresql://USER@HOST/DATABASE (default: a file in the user's cache directory)",
        "FILE|URL",
    )
    run: str | None = _option(str, "folder for the run record (default: reports/runs/TIME-MODEL)", "DIR")
    resume: bool = _flag(
        "resume the run in --llm-run: run the cases without a verdict and those that ended in an error"
    )
    attach: str = _ini_key(
        text,
        "prompts and replies in Allure results: failures (default, with a sample of passes), all or none",
        "CASES",
        "failures",
        choices=("all", "failures", "none"),
    )
    allure_identity: str = _ini_key(
        text,
        "how Allure's history follows an item: within one model (model, the default), or across models, so that an"
        " upgrade shows new failures and fixed cases (item)",
        "NAME",
        "model",
        choices=("model", "item"),
    )
    gate: Path | None = _option(Path, "gate file: rules that decide whether the run passes", "FILE")
    baseline: str | None = _option(
        text,
        "baseline of the gate: a run folder, a run id or the name of a promoted run; its items are measured unless"
        " other options select items",
        "RUN",
    )
    max_calls: int | None = _option(
        positive,
        "maximum number of calls: a run that plans more does not start, a run that reaches it stops",
        "N",
    )
    max_cost: float | None = _option(
        amount, "maximum cost: a run that plans more does not start, a run that reaches it stops", "USD"
    )
    confirm: Confirm = _ini_key(
        parse_confirm,
        'calls and cost above which a run needs a confirmation (default: "5 USD, 20000 calls"; off: never)',
        "LIMITS",
        Confirm(5.0, 20_000),
    )
    yes: bool = _flag("confirm the calls and the cost of the run; scripts and CI are not asked")
    prices: Path | None = _ini_key(
        Path, "file of prices, which takes precedence over the tables (default: $LLMPROPS_PRICES)", "FILE"
    )
    plan: bool = _flag("print the planned calls, tokens, cost and time; send nothing")

    @property
    def calls(self) -> CallOptions:
        """What each call has."""
        from pytest_llmprops.models.base import CallOptions

        prices = str(self.prices) if self.prices else None
        return CallOptions(self.base_url, self.timeout, self.concurrency, prices, headers=self.headers)

    @property
    def has_ray(self) -> bool:
        """True if a Ray cluster serves local models."""
        return self.engine.startswith("ray")


#: field of :class:`RunOptions` -> its option
OPTIONS_BY_FIELD = {
    one.name: Option(
        f"llm-{(one.name[:-1] if one.metadata['default'] in ((), {}) else one.name).replace('_', '-')}",
        **one.metadata,
    )
    for one in fields(RunOptions)
}
OPTIONS = tuple(OPTIONS_BY_FIELD.values())

#: pytest's options that show what a run would do
_SHOWING = {
    "collectonly": "--collect-only",
    "showfixtures": "--fixtures",
    "show_fixtures_per_test": "--fixtures-per-test",
    "setupplan": "--setup-plan",
    "cacheshow": "--cache-show",
}


def shown_only(option: Any, settings: RunOptions) -> str:
    """Return the option because of which the session only shows something and runs no case; empty without one.

    :param option: pytest's options.
    """
    given = (name for key, name in _SHOWING.items() if getattr(option, key, None))
    return next(given, "--llm-plan" if settings.plan else "")


def recorded_options(settings: RunOptions) -> dict[str, Any]:
    """Return the options as ``run.json`` has them: without keys and the passwords of URLs."""
    values = {name: plain_option(getattr(settings, name)) for name in type(settings).__slots__}
    return values | {"headers": dict.fromkeys(settings.headers, _NOT_SHOWN)}


def recorded_command(arguments: Sequence[object]) -> list[str]:
    """Return the command line as ``run.json`` has it: without the values of headers and the passwords of URLs.

    The name of the environment variable that has a value stays.
    """
    shown = []
    is_header = False
    for argument in map(str, arguments):
        option, value = ("", argument) if is_header else argument.partition("=")[::2]
        is_header = argument == "--llm-header"
        if value and option in ("", "--llm-header"):
            name, _, text = value.partition("=")
            value = f"{name}={text if text.startswith('$') else _NOT_SHOWN}"
            shown.append(f"{option}={value}" if option else value)
        else:
            shown.append(plain_option(_INI_HEADER.sub(f"llm_header={_NOT_SHOWN}", argument)))
    return shown


def changed_options(
    recorded: Mapping[str, Any], settings: RunOptions, names: Mapping[str, str]
) -> Iterator[str]:
    """Yield the options that a recorded run has with another value, with both values.

    :param recorded: those of its record. :param names: what is compared: field of the options -> option.
    """
    for name, option in names.items():
        now = plain_option(getattr(settings, name))
        if name in recorded and recorded[name] != now:
            yield f"{option} {_shown(recorded[name])}, not {_shown(now)}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={part}" for name, part in value.items()) or "(none)"
    if isinstance(value, list):
        return "/".join(map(str, value))
    return "(none)" if value is None else str(value)


def plain_option(value: Any) -> Any:
    """Return the value of an option as ``run.json`` has it: without the passwords of URLs."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain_option(part) for name, part in value.items()}
    return list(map(plain_option, value)) if isinstance(value, tuple) else value


def add_options(parser: pytest.Parser) -> None:
    """Add every ini key, and the options of those that have one."""
    group = parser.getgroup("llmprops", "llmprops: measure a language model")
    for option in OPTIONS:
        details: dict[str, str] = {} if option.is_flag else {"metavar": option.metavar}
        action, kind = "store", "string"
        if option.is_flag:
            action, kind = "store_true", "bool"
        elif option.is_repeatable:
            action, kind = "append", "linelist"
        if not option.is_ini_only:
            group.addoption(
                *option.names, dest=option.dest, action=action, default=None, help=option.help, **details
            )
        parser.addini(option.dest, option.help, type=kind, default=None)  # type: ignore[arg-type]


def resolve_options(config: pytest.Config) -> RunOptions:
    """Return the values of all options.

    :raises pytest.UsageError: with the option, its value and the accepted values.
    """
    values = {name: _value(config, option) for name, option in OPTIONS_BY_FIELD.items()}
    if values["data"] is not None and not is_given(config, OPTIONS_BY_FIELD["source"]):
        values["source"] = "published"
    if values["shard"] is not None and values["gate"] is not None:
        raise pytest.UsageError(
            f"--llm-shard {values['shard']}: a gate does not judge one shard; leave out --llm-gate, merge the"
            " shards with 'llmprops runs merge', and judge the merged run with 'llmprops gate'"
        )
    if values["allure_identity"] == "item" and len(values["models"]) > 1:
        raise pytest.UsageError(
            "llm_allure_identity = item: Allure would take the models' cases for retries of one case; give one --model"
        )
    if values["engine"] == "batch":
        _check_batches(values)
    for name, variable in (("data", "LLMPROPS_DATA"), ("prices", "LLMPROPS_PRICES"), ("gate", "")):
        value = values[name] or os.environ.get(variable)
        if value is not None:
            # Workers start in the controller's folder, but a test may change the directory.
            values[name] = (config.invocation_params.dir / value).absolute()
    return RunOptions(**values)


def _check_batches(values: Mapping[str, Any]) -> None:
    """Check that the options fit ``--llm-engine batch``."""
    is_limited = values["gate"] is not None and values["cache_age"] is None
    if is_limited and values["batch_wait"] is not None and not values["run"]:
        raise pytest.UsageError(
            "--llm-engine batch: a gate uses replies since the day before its run began, so the next command must know"
            " the run; add --llm-run DIR, or give a maximum age with -o llm_cache_age=24h"
        )
    if values["cache"] in ("refresh", "off"):
        raise pytest.UsageError(
            "--llm-engine batch: needs the reply store to continue an earlier run; leave out --llm-cache"
            f" {values['cache']}, or name a new store with --llm-store FILE"
        )


def project_folder(config: pytest.Config) -> Path:
    """Return the folder of ``reports/`` and ``baselines/``: pytest's root folder, or that of the command.

    Without an ini file, pytest's root folder is the common folder of all paths on the command line, also of
    ``--llm-data /data``.
    """
    return Path(config.rootpath if config.inipath is not None else config.invocation_params.dir)


#: the options that a run has from its baseline, as arguments
FROM_BASELINE: pytest.StashKey[list[str]] = pytest.StashKey()


def is_given(config: pytest.Config, option: Option) -> bool:
    """Return True if the command line or the ini file has a value for an option."""
    value, _ = _text_of(config, option)
    return value is not None


def selected_tests(option: Any) -> dict[str, Any]:
    """Return what selects the tests, by the names of pytest's options.

    :param option: pytest's options.
    """
    return {
        "tests": [str(test) for test in option.file_or_dir],
        "-k": option.keyword,
        "-m": option.markexpr,
        "--deselect": list(option.deselect or ()),
    }


def _text_of(config: pytest.Config, option: Option) -> tuple[Any, str]:
    """Return the text of an option, or its texts, and where it is from; None if it is not given."""
    # A baseline sets ini keys among the options.
    value, origin = config.getoption(option.dest, None), option.names[0]
    if value is None:
        value, origin = config.getini(option.dest), f"ini key {option.dest}"
    return (None if value == [] or (value == "" and not option.is_flag) else value), origin


def _value(config: pytest.Config, option: Option) -> Any:
    value, origin = _text_of(config, option)
    if value is None:
        return option.default
    if option.choices and value not in option.choices:
        raise pytest.UsageError(f"{origin} {value}: must be one of {', '.join(option.choices)}")
    try:
        return option.parse(value)
    except (UsageError, ValueError) as error:
        text = redacted(" ".join(value) if isinstance(value, list) else value)
        if option.name == "llm-header" or isinstance(error, _SecretValue):
            text = "..."
        reason = (
            str(error) if "literal" not in str(error) and "convert" not in str(error) else "must be a number"
        )
        raise pytest.UsageError(f"{origin} {text}: {reason}") from None
