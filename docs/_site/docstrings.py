"""Griffe extension: show the reST cross-reference roles of our docstrings as links."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|attr|data|mod|exc):`(~)?([\w.]+)`")


def _link(match: re.Match[str]) -> str:
    shortened, target = match.groups()
    return f"`{target.rpartition('.')[2] if shortened else target}`"


class ReferenceRoles(griffe.Extension):
    """Replace ``:class:`~a.b.C``` by the name ``C`` in code style; the Markdown of the site knows no roles."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring:
            obj.docstring.value = ROLE.sub(_link, obj.docstring.value)
