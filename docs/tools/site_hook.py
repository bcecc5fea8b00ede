"""Hooks of MkDocs: pages of the repository that lie outside docs/, and links between all of them.

Links in Markdown are written for a reader of the repository. A link to another page becomes a link within the site; a
link to any other file becomes its path in code, because the site contains no source.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
OUTSIDE = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "deploy/README.md",
    "deploy/RUNBOOK.md",
    "dpcore/PRIVACY.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "dpcore" / "decisions").glob("*.md")),
]
_FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages outside docs/ under their paths in the repository."""
    for path in OUTSIDE:
        files.append(File.generated(config, path, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrites the links of a page."""
    here = page.file.src_uri
    home = here if here in OUTSIDE else f"docs/{here}"
    parts = _FENCED.split(markdown)
    parts[::2] = [_LINK.sub(lambda link: _rewritten(link, home, here, files), part) for part in parts[::2]]
    return "".join(parts)


def on_post_build(config: Any) -> None:
    """Lists the links to other hosts in external_links.txt. They are not fetched."""
    hosts = {
        target
        for page in Path(config["site_dir"]).rglob("*.html")
        for target in re.findall(r'href="(https?://[^"]+)"', page.read_text(encoding="utf-8"))
    }
    listed = "".join(f"{target}\n" for target in sorted(hosts))
    Path(config["site_dir"], "external_links.txt").write_text(listed, encoding="utf-8")


def _rewritten(link: re.Match[str], home: str, here: str, files: Any) -> str:
    image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
    page = path.removeprefix("docs/") if path.startswith("docs/") else path
    if (path.startswith("docs/") or path in OUTSIDE) and files.get_file_from_path(page):
        relative = posixpath.relpath(page, posixpath.dirname(here) or ".")
        return f"{image}[{text}]({relative}{anchor})"
    if not (ROOT / path).exists():
        return link[0]  # MkDocs reports it.
    plain = text.replace("`", "")
    return f"`{path}`" if plain in path else f"{text} (`{path}`)"
