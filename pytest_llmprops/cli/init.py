"""``llmprops init``: the first files of a project that measures models."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path

from pytest_llmprops.cli.kit import Groups, wrote
from pytest_llmprops.core.errors import UsageError

#: path in the new project -> file in ``project/``; .txt, because tools read a .py file as part of this package
FILES = {
    "gate.toml": "gate.toml",
    ".github/workflows/model-upgrade.yml": "model-upgrade.yml",
    "example/test_capitals.py": "test_capitals.py.txt",
    "example/capitals.jsonl": "capitals.jsonl",
}
NEXT = """\
Try the files without a key:  pytest suites/ example/ --model fake:echo --llm-limit 2
Measure a model:              pytest suites/ --model gpt-4o -n 8
Keep it as the baseline:      llmprops runs promote RUN current"""


def add(groups: Groups) -> None:
    """Add ``init``."""
    init = groups.add_parser(
        "init",
        help="write suites, a gate, a CI workflow and an example benchmark",
        description="Write the suites of this package, a gate file, a GitHub Actions workflow that gates a model"
        " upgrade, and a small benchmark to start from.",
    )
    init.add_argument(
        "folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: this folder"
    )
    init.add_argument("--overwrite", action="store_true", help="replace files that differ")
    init.set_defaults(command=_init)


def _init(options: argparse.Namespace) -> int:
    contents = project_files()
    paths = {options.folder / name: content for name, content in contents.items()}
    differing = [
        str(path)
        for path, content in paths.items()
        if path.exists() and not (path.is_file() and path.read_bytes() == content)
    ]
    if differing and not options.overwrite:
        raise UsageError(
            f"{', '.join(differing)}: already there, nothing was written; pass --overwrite, or name another folder"
        )
    for path, content in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    wrote(paths)
    print(NEXT)
    return 0


def project_files() -> dict[str, bytes]:
    """Return the content of each file of a new project, by its path."""
    suites, project = files("pytest_llmprops.suites"), files("pytest_llmprops.cli") / "project"
    copied = sorted(file.name for file in suites.iterdir() if re.fullmatch(r"test_\w+\.py", file.name))
    return {f"suites/{name}": (suites / name).read_bytes() for name in copied} | {
        path: (project / name).read_bytes() for path, name in FILES.items()
    }
