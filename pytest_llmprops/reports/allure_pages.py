"""Changes to the pages that Allure 3 builds: they contact no other host, and large ones open fast."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from pytest_llmprops.core.errors import UsageError

#: the tested version of Allure
VERSION = "3.18.0"
#: with at most this many cases, groups with failures are open
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
    """Remove requests to other hosts from every page, and add a policy that forbids them.

    :raises UsageError: if a page has a request that this function does not know.
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
        text, heads = _HEAD.subn(lambda match: f"{match.group()}\n{POLICY}", text, count=1)
        if not heads:
            raise UsageError(f"{page.name}: has no <head> to hold a policy; build with allure@{VERSION}")
        page.write_text(text, encoding="utf-8")


def fold(site: Path) -> None:
    """Close all groups of a report with many cases when it is opened for the first time.

    The page opens groups with failures and draws all their rows, and ten thousand rows freeze a browser. It keeps the
    list of closed groups in the browser's storage, so a script fills that list.
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
