"""MkDocs hooks: pages of the site that are files outside of docs/, and the links to them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
#: repository files that are also pages of the site, under the same path
PAGES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "action.yml",
    "data/dtails/README.md",
    "data/oracle/README.md",
    "pytest_llmprops/cli/project/model-upgrade.yml",
)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the repository's own pages to the site."""
    for name in PAGES:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Rewrite links between docs/ and the rest of the repository to links between pages of the site."""
    if page.file.src_uri in PAGES:
        return re.sub(r"\]\(docs/", "](", markdown)
    return re.sub(r"\]\(\.\./(?=[\w-])", "](", markdown)
