"""An HTML page in, its title and main text out, by trafilatura: no menus, banners and comments."""

from __future__ import annotations

import html
import re
from typing import Any

_TITLE = re.compile(r"<title[^>]*>(.*?)</title", re.IGNORECASE | re.DOTALL)
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")


def html_to_text(page: str) -> tuple[str, str]:
    """Title and main text, paragraphs divided by a blank line; ("", "") for an empty page."""
    import trafilatura

    if not page.strip():
        return "", ""
    found: Any = trafilatura.bare_extraction(
        _DECLARATION.sub("", page),  # lxml refuses a declared encoding in text
        include_comments=False,
        include_tables=False,
        include_images=False,
        with_metadata=False,
    )
    title = _title(page)
    if found is None:
        return title, ""
    lines = (" ".join(line.split()) for line in (found.text or "").split("\n"))
    return title, "\n\n".join(filter(None, lines))


def _title(page: str) -> str:
    match = _TITLE.search(page[:200_000])
    return " ".join(html.unescape(match[1]).split()) if match else ""
