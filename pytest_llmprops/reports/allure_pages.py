"""What is done to the pages that Allure 3 made: nothing of theirs asks another host, and large ones open fast."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pytest_llmprops.core.errors import UsageError

#: the version that these pages were tested with
VERSION = "3.18.0"
#: up to this many cases the groups that hold failures are open
OPEN = 500
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="'
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; object-src 'none'; base-uri 'self';"
    " form-action 'none'\">"
)
_ANALYTICS = re.compile(
    r"<script[^>]*\ssrc=\"https://www\.googletagmanager\.com/[^\"]*\"[^>]*></script>\s*<script>.*?</script>",
    re.S,
)
_FOREIGN = re.compile(r"(?:src|href|action|data)\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)", re.I)
_TRACKERS = re.compile(r"googletagmanager|google-analytics|mc\.yandex")
_HEAD = re.compile(r"<head[^>]*>", re.I)


def make_private(site: Path) -> None:
    """Take out of every page what would ask another host, and forbid the rest to the browser.

    :raises UsageError: when something is left that this function does not know.
    """
    for page in site.rglob("*.html"):
        if page.parent.name == "attachments":
            continue
        text = _ANALYTICS.sub("", page.read_text(encoding="utf-8"))
        left = _FOREIGN.search(text) or _TRACKERS.search(text)
        if left is not None:
            raise UsageError(
                f"{page.name}: this version of Allure asks other hosts ({left.group()}); build with allure@{VERSION}"
            )
        text, heads = _HEAD.subn(lambda found: f"{found.group()}\n{POLICY}", text, count=1)
        if not heads:
            raise UsageError(f"{page.name}: has no <head> to hold a policy; build with allure@{VERSION}")
        page.write_text(text, encoding="utf-8")


def fold(site: Path) -> None:
    """Let a report of many cases open with its groups closed.

    The page shows each open group whole, and opens those with failures: ten thousand rows freeze a browser. What
    is closed it remembers in the browser's storage, which is filled here when a report is opened the first time.
    """
    tree = json.loads((site / "widgets" / "tree.json").read_text(encoding="utf-8"))
    if len(tree["leavesById"]) <= OPEN:
        return
    closed = [group["nodeId"] for group in tree["groupsById"].values() if group.get("leaves")]
    page = site / "index.html"
    text = page.read_text(encoding="utf-8")
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    script = (
        f'<script>if(localStorage.getItem("llmprops")!=="{key}"){{'
        f'localStorage.setItem("llmprops","{key}");localStorage.setItem("expandedTrees","[]");'
        f'localStorage.setItem("collapsedTrees",{json.dumps(json.dumps(closed))})}}</script>'
    )
    page.write_text(text.replace('<div id="app">', f'{script}\n    <div id="app">', 1), encoding="utf-8")
