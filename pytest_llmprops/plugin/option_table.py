"""The table of all command-line options; each is also an ini key, which is the name with underscores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmprops.core.items import LIMITED_SIZES
from pytest_llmprops.plugin import option_values as values

SOURCES = ("builtin", "published", "all")
SIZES = (*LIMITED_SIZES, "full")
CACHE_MODES = ("reuse", "refresh", "off", "only")
ATTACH = ("all", "failures", "none")
ALLURE_IDENTITIES = ("model", "item")
FAILURES = ("fail", "xfail")


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    :param parse: returns the value of the option's text, or of its list of texts; raises ValueError.
    """

    name: str
    parse: Callable[[Any], Any]
    default: Any
    help: str
    metavar: str = "VALUE"
    repeatable: bool = False
    flag: bool = False
    choices: tuple[str, ...] = ()

    @property
    def dest(self) -> str:
        return self.name.replace("-", "_")


OPTIONS: tuple[Option, ...] = (
    Option(
        "llm-model",
        values.models,
        (),
        "model to measure: NAME[?key=value&...]; repeatable",
        "SPEC",
        repeatable=True,
    ),
    Option(
        "llm-helper",
        values.pairs,
        {},
        "helper model for one role, such as reader, parse or embed; repeatable",
        "ROLE=SPEC",
        repeatable=True,
    ),
    Option(
        "llm-base-url",
        values.url,
        None,
        "base URL of an OpenAI-compatible server, usually ending in /v1; of several servers, separated by commas",
        "URL",
    ),
    Option(
        "llm-concurrency",
        values.positive,
        64,
        "maximum number of calls in flight, over all workers (default: 64)",
        "N",
    ),
    Option(
        "llm-engine",
        values.engine,
        "local",
        "how requests are sent: local (default) makes calls; batch uses the provider's batches, at half the price; ray"
        " and ray://HOST:PORT run replicas of a local model in a Ray cluster",
        "ENGINE",
    ),
    Option(
        "llm-batch-wait",
        values.seconds,
        None,
        "how long to wait for batches (default: until all are done); then the run ends with status 2, and the same"
        " command goes on",
        "SECONDS",
    ),
    Option("llm-rpm", values.amount, None, "maximum number of calls per minute (default: no limit)", "N"),
    Option("llm-timeout", values.amount, 120.0, "timeout of one call, in seconds (default: 120)", "SECONDS"),
    Option("llm-retries", values.count, 4, "number of retries after a failed call (default: 4)", "N"),
    Option(
        "llm-param",
        values.params,
        {},
        "request parameter that overrides the protocol's value; repeatable",
        "NAME=VALUE",
        repeatable=True,
    ),
    Option(
        "llm-limit",
        values.positive,
        None,
        "number of items per task and language (eras, dtails: per cluster; default: all)",
        "N",
    ),
    Option(
        "llm-size",
        values.text,
        "full",
        "number of items: small, standard or full (default); small is about 1,500 calls in all suites",
        "SIZE",
        choices=SIZES,
    ),
    Option(
        "llm-shard",
        values.shard,
        None,
        "part I of N of the selected items, for N runs that 'llmprops runs merge' makes one; clusters stay whole",
        "I/N",
    ),
    Option(
        "llm-repeats",
        values.positive,
        1,
        "number of samples of each item, each with its own calls and verdict (default: 1)",
        "N",
    ),
    Option("llm-seed", int, 0, "seed of all random choices (default: 0)", "N"),
    Option(
        "llm-source",
        values.text,
        "builtin",
        "source of the items: builtin (default), published or all",
        "SOURCE",
        choices=SOURCES,
    ),
    Option("llm-data", Path, None, "folder of published or generated data (default: $LLMPROPS_DATA)", "DIR"),
    Option(
        "llm-protocol",
        values.text,
        "quick",
        "named settings of each benchmark: quick (default) or paper",
        "NAME",
    ),
    Option(
        "llm-set",
        values.sets,
        {},
        "change one setting of a protocol; repeatable",
        "BENCHMARK.FIELD=VALUE",
        repeatable=True,
    ),
    Option(
        "llm-cache",
        values.text,
        "reuse",
        "use of stored replies: reuse (default), refresh, off or only",
        "MODE",
        choices=CACHE_MODES,
    ),
    Option(
        "llm-cache-age",
        values.age,
        None,
        "maximum age of a stored reply of an unpinned model: 24h, 7d (default: 24h with a gate, otherwise no limit)",
        "TIME",
    ),
    Option(
        "llm-store",
        values.store,
        None,
        "reply store: a file, or postgresql://USER@HOST/DATABASE (default: a file in the user's cache directory)",
        "FILE|URL",
    ),
    Option("llm-run", str, None, "folder for the run record (default: reports/runs/TIME-MODEL)", "DIR"),
    Option(
        "llm-resume",
        bool,
        False,
        "go on with the run in --llm-run: run the cases without a verdict and those that ended in an error",
        flag=True,
    ),
    Option(
        "llm-attach",
        values.text,
        "failures",
        "prompts and replies in Allure results: failures (default, with a sample of passes), all or none",
        "CASES",
        choices=ATTACH,
    ),
    Option(
        "llm-allure-identity",
        values.text,
        "model",
        "what Allure's history takes for one case: an item with its model (model, the default), or an item, so that an"
        " upgrade shows new failures and fixed cases (item)",
        "NAME",
        choices=ALLURE_IDENTITIES,
    ),
    Option("llm-gate", Path, None, "gate file: rules that decide whether the run passes", "FILE"),
    Option(
        "llm-baseline",
        values.text,
        None,
        "baseline of the gate: a run folder, a run id or the name of a promoted run",
        "RUN",
    ),
    Option(
        "llm-failures",
        values.text,
        "fail",
        "how pytest reports wrong verdicts: fail (default) or xfail; errors remain errors",
        "HOW",
        choices=FAILURES,
    ),
    Option(
        "llm-max-calls",
        values.positive,
        None,
        "maximum number of calls: a run that plans more does not start, a run that reaches it stops",
        "N",
    ),
    Option(
        "llm-max-cost",
        values.amount,
        None,
        "maximum cost: a run that plans more does not start, a run that reaches it stops",
        "USD",
    ),
    Option(
        "llm-confirm",
        values.confirm,
        values.Confirm(5.0, 20_000),
        'calls and cost above which a run needs a confirmation (default: "5 USD, 20000 calls"; off: never)',
        "LIMITS",
    ),
    Option(
        "llm-yes",
        bool,
        False,
        "confirm the calls and the cost of the run; scripts and CI are not asked",
        flag=True,
    ),
    Option(
        "llm-prices",
        Path,
        None,
        "file of prices, which takes precedence over the tables (default: $LLMPROPS_PRICES)",
        "FILE",
    ),
    Option(
        "llm-plan", bool, False, "print the planned calls, tokens, cost and time; send nothing", flag=True
    ),
)
