"""A hook of MkDocs: the pages of the project's top folder become pages of the site, and links fit the site.

A link to a file that is no page, such as a module or an example, is shown as its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = "docs/"
PAGES: Final = {
    "README.md": "index.md",
    "DESIGN.md": "design.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the top folder."""
    from mkdocs.structure.files import File

    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrite the links of a page."""
    shown = page.file.src_uri
    source = next((name for name, there in PAGES.items() if there == shown), DOCS + shown)
    return with_site_links(markdown, source, shown)


def with_site_links(text: str, source: str, shown: str) -> str:
    """Return ``text`` of the file ``source`` with links that fit its page ``shown``."""

    def link(found: re.Match[str]) -> str:
        words, target, heading = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = PAGES.get(path) or (path.removeprefix(DOCS) if path.startswith(DOCS) else None)
        if there is None:
            return words
        return f"[{words}]({posixpath.relpath(there, posixpath.dirname(shown) or '.')}{heading})"

    return LINK.sub(link, text)
