"""Fenced blocks and headings of the README and of the pages in docs."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTINUED = "continued"
"""Title of a block that goes on with the names of the blocks above it, back to the last whole program."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w+)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```", re.DOTALL | re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    kind: str
    title: str
    text: str

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_continued(self):
        return self.title == CONTINUED


def blocks(page, *kinds):
    """Blocks of a page in their order; of certain kinds if some are given."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        title = re.search(r'title="([^"]*)"', match["rest"])
        inner = re.sub(rf"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match["kind"], title[1] if title else "", inner))
    return [block for block in found if not kinds or block.kind in kinds]


def headings(page):
    """Anchors of a page as MkDocs makes them, and those that a heading gives itself."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = set()
    for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE):
        own = re.search(r"\{ #([\w-]+) \}", title)
        plain = re.sub(r"[`*\\]|\{.*\}", "", title).strip().lower()
        found.add(own[1] if own else re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain)))
    return found | {f"sap_warp.{name}" for name in re.findall(r"^::: sap_warp\.(\S+)", text, flags=re.MULTILINE)}
