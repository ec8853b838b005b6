"""The pytest command of a record, so that it can be repeated although someone else may have written the record.

Only options of the lists below are repeated, and each value is a part of its option's word: pytest takes a separate
word for a path, which decides the ini file that it loads, and one that begins with ``@`` for a file of arguments.
"""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pytest_llmprops.core.errors import UsageError
from pytest_llmprops.core.strict_json import is_unicode
from pytest_llmprops.core.texts import shell_line

#: the variable with which the options of a record reach pytest, which asks about some of them
FROM_RECORD = "LLMPROPS_FROM_RECORD"
#: options and ini keys of the plugin that are repeated
REPEATED = frozenset(
    {
        "llm-allure-identity", "llm-attach", "llm-base-url", "llm-baseline", "llm-batch-wait", "llm-cache",
        "llm-cache-age", "llm-concurrency", "llm-data", "llm-engine", "llm-gate", "llm-header",
        "llm-helper", "llm-limit", "llm-max-calls", "llm-max-cost", "llm-max-thinking", "llm-model", "llm-param",
        "llm-prices", "llm-protocol", "llm-repeats", "llm-retries", "llm-rpm", "llm-seed", "llm-set", "llm-shard",
        "llm-size", "llm-source", "llm-store", "llm-timeout",
    }
)  # fmt: skip
#: the others: the folder is that of the record, and a confirmation is for one session
NOT_REPEATED = frozenset({"llm-confirm", "llm-plan", "llm-resume", "llm-run", "llm-yes"})
#: of all these, the ini keys that are no options; a command has them after ``-o``
INI_ONLY = frozenset(
    {
        "llm-allure-identity", "llm-attach", "llm-batch-wait", "llm-cache-age", "llm-confirm", "llm-max-thinking",
        "llm-prices", "llm-retries", "llm-rpm", "llm-source",
    }
)  # fmt: skip
_OPTIONS = REPEATED - INI_ONLY
_SETTING = re.compile(r"(?:-o|--override-ini)[ =]?(llm_[a-z_]+)=(.+)", re.DOTALL)
#: options whose values are NAME=VALUE: a value replaces the recorded one of the same name
_NAMED = ("llm-header", "llm-helper", "llm-param", "llm-set")
#: options whose values are added to the recorded ones
_ADDED = ("--deselect", "--ignore", "--ignore-glob")
_ANY = re.compile(r".+", re.DOTALL)
_NUMBER, _WORD = re.compile(r"\d{1,9}"), re.compile(r"[a-z]+")
_WORKERS = re.compile(r"\d{1,3}|auto|logical")
#: pytest's options with a value that are repeated, and their values: what is selected, and what is shown
_VALUES: Mapping[str, re.Pattern[str]] = {
    "-k": _ANY,
    "-m": _ANY,
    "-n": _WORKERS,
    "--numprocesses": _WORKERS,
    "--dist": _WORD,
    "--deselect": _ANY,
    "--ignore": _ANY,
    "--ignore-glob": _ANY,
    "--maxfail": _NUMBER,
    "--tb": _WORD,
    "--durations": _NUMBER,
}
_FLAGS = re.compile(r"-[qvxsl]+|--(exitfirst|quiet|verbose|showlocals|no-header|no-summary)")
#: other options that are known to have a value
_WITH_VALUE = (
    "-p", "-c", "-o", "-W", "-r", "--alluredir", "--basetemp", "--config-file", "--confcutdir", "--import-mode",
    "--junit-xml", "--junitxml", "--override-ini", "--rootdir",
)  # fmt: skip
#: files whose presence lets pytest run code, or read settings that name code
_CODE = ("pytest.ini", "pytest.toml", ".pytest.ini", ".pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.py")


class Part(NamedTuple):
    """A part of a command.

    :param name: of an option, such as ``llm-limit`` or ``-k``; empty for a suite.
    """

    name: str
    value: str

    @property
    def word(self) -> str:
        """The word of the command."""
        if not self.value or not self.name:
            return self.name or self.value
        if self.name in INI_ONLY:
            return f"--override-ini={self.name.replace('-', '_')}={self.value}"
        if self.name in REPEATED:
            return f"--{'model' if self.name == 'llm-model' else self.name}={self.value}"
        return self.name + ("=" if self.name.startswith("--") else "") + self.value


@dataclass
class Parts:
    """The parts of a command that may be repeated, and the words that are left out."""

    parts: list[Part] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """Return the values of an option."""
        return [part.value for part in self.parts if part.name == name]

    @property
    def options(self) -> dict[str, list[str]]:
        """The values of the plugin's options, by name."""
        return {name: values for name in sorted(REPEATED) if (values := self.values(name))}

    def from_record(self, folder: Path) -> str:
        """Return the value of the variable ``FROM_RECORD``, which :func:`read_from_record` reads."""
        return json.dumps([str(folder), self.options])

    @property
    def suites(self) -> list[str]:
        """The files, folders and node ids."""
        return self.values("")

    def without(self, own: Parts) -> Parts:
        """Return the parts that the user's own words do not replace."""
        given = {(part.name, _key(part)) for part in own.parts}
        return Parts([part for part in self.parts if (part.name, _key(part)) not in given], self.left_out)


def read_from_record(value: str) -> tuple[Path, dict[str, list[str]]]:
    """Return the folder of the record, and the values of the plugin's options that come from it, by name."""
    folder, options = json.loads(value)
    return Path(folder), options


def _key(part: Part) -> str:
    if part.name in _ADDED:
        return part.value
    return part.value.partition("=")[0] if part.name in _NAMED else ""


def resume_command(run: str | Path) -> str:
    """Return the command that resumes a run, to copy into a shell."""
    return shell_line("llmprops", "run", "--resume", str(run))


def parts_of(words: Sequence[str], suites: Collection[str] = ()) -> Parts:
    """Divide the words of a pytest command.

    :param suites: names of suites that are modules.
    """
    found = Parts()
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        name, equals, value = word.partition("=")
        option = "llm-model" if name == "--model" else name.removeprefix("--")
        has_more = word in ("-o", "--override-ini") and rest
        setting = _SETTING.fullmatch(f"{word} {rest[-1]}" if has_more else word)
        if word and not word.startswith(("-", "@")):
            found.parts.append(Part("", word))
        elif setting is not None and (key := setting[1].replace("_", "-")) in INI_ONLY:
            if has_more:
                rest.pop()
            if key in REPEATED:
                found.parts.append(Part(key, setting[2]))
        elif name.startswith("--") and (option in _OPTIONS or name in _VALUES):
            value = value if equals else rest.pop() if rest else ""
            part = Part(option if option in _OPTIONS else name, value)
            is_valid = bool(value) if option in _OPTIONS else _VALUES[name].fullmatch(value)
            found.parts.append(part) if is_valid else found.left_out.append(part.word)
        elif _FLAGS.fullmatch(word):
            found.parts.append(Part(word, ""))
        elif word[:2] in _VALUES:
            value = word[2:].removeprefix("=") or (rest.pop() if rest else "")
            part = Part(word[:2], value)
            found.parts.append(part) if _VALUES[word[:2]].fullmatch(value) else found.left_out.append(
                part.word
            )
        elif option in NOT_REPEATED:
            if option == "llm-run" and not equals and rest:
                rest.pop()
        elif word != "--pyargs":
            found.left_out.append(word)
            following = rest[-1] if rest else "-"
            # Whether an unknown option has a value is not known; a suite is not its value.
            is_unknown = name.startswith("--") and not equals and not _is_suite(following, suites)
            if not following.startswith("-") and (word in _WITH_VALUE or is_unknown):
                found.left_out.append(rest.pop())
    return found


def _is_suite(word: str, suites: Collection[str]) -> bool:
    name = word.partition("::")[0]
    path = Path(name)
    if name in suites or path.suffix == ".py":
        return True
    # Only here: a record may name any folder of the machine, and those of processes vanish while they are listed.
    is_here = path.resolve().is_relative_to(Path.cwd().resolve())
    return is_here and any(_TEST_FILE.fullmatch(file) for *_, files in os.walk(path) for file in files)


def repeated_words(
    folder: Path, command: Sequence[str], own: Sequence[str], suites: Collection[str]
) -> tuple[list[str], Parts]:
    """Return the words of a record's command that may be repeated in this folder, and their parts.

    :param folder: of the record. :param own: the user's words, which replace the recorded ones.
    :param suites: the suites of installed benchmarks, which are modules.
    :raises UsageError: if a suite is neither installed nor in this folder, or the record has files with code.
    """
    if not all(is_unicode(word) and "\0" not in word for word in command):
        raise UsageError(
            f"{folder}: its command has characters that no command can have; the record is damaged"
        )
    code = next(_code_in(folder), None)
    if code is not None:
        raise UsageError(
            f"{folder}: has {code}, which is not a file of a record and which pytest might run; remove it, or measure"
            " again with a new folder"
        )
    kept = parts_of(command, suites).without(parts_of(own, suites))
    has_modules = False
    for suite in kept.suites:
        is_module = suite.partition("::")[0] in suites
        has_modules |= is_module
        if problem := "" if is_module else _suite_problem(suite, folder):
            raise UsageError(
                f"{folder}: its suite {suite} {problem}, so it is not run; start in the folder of the first command, or"
                " name the suites to run after the run: llmprops run --resume RUN suites/"
            )
    words = ["--pyargs"] if has_modules else []
    for part in kept.parts:
        is_path = not part.name and part.value.partition("::")[0] not in suites
        # With --pyargs, a relative path might be a module.
        words.append(str(Path.cwd() / part.word) if is_path and has_modules else part.word)
    return words, kept


def _code_in(folder: Path) -> Iterator[str]:
    """Yield the files in a record's folder that pytest might run, or read its settings from."""
    for place, _, names in os.walk(folder):
        for name in names:
            if name in _CODE or name.endswith((".py", ".pyc")):
                yield str((Path(place) / name).relative_to(folder))


def _suite_problem(suite: str, folder: Path) -> str:
    path = Path(suite.partition("::")[0])
    if not path.exists():
        return "does not exist here"
    own = Path(importlib.import_module("pytest_llmprops.suites").__path__[0]).resolve()
    if path.resolve().is_relative_to(own) or not is_outside(path, folder):
        return ""
    return "is not below this folder, or is in the folder of a record"


def is_outside(path: Path, folder: Path) -> bool:
    """Return True unless a path is in the current folder, and not in that of a record, such as ``folder``."""
    # With resolved paths: a link in this folder may lead elsewhere.
    return is_in_record(path, folder) or not path.expanduser().resolve().is_relative_to(Path.cwd().resolve())


def is_in_record(path: Path, folder: Path) -> bool:
    """Return True if a path is in the folder of a record, such as ``folder``."""
    real = path.expanduser().resolve()
    return real.is_relative_to(folder.resolve()) or any(
        (place / "run.json").exists() for place in (real, *real.parents)
    )
