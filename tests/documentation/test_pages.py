"""Pages as a whole: none is lost, links lead somewhere, public names have their reference, words are spelt right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import sap_warp
from tests.support.markdown import PAGES, ROOT, headings

NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page):
    """Also those of the README, which MkDocs does not see."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.exists(), target
        if anchor and place.suffix == ".md":
            assert anchor in headings(place), target


def test_every_page_is_in_the_navigation():
    """A page that nobody can reach is not there; and the navigation names only pages that exist."""
    named = set(re.findall(r"[\w/-]+\.md", NAVIGATION))
    assert named == {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"}


def test_every_public_name_has_its_reference():
    """In exactly one place, and the overview links there."""
    api = ROOT / "docs" / "api"
    listed = [
        name for page in api.glob("*.md") for name in re.findall(r"^::: sap_warp\.(\w+)$", page.read_text(), re.M)
    ]
    assert sorted(listed) == sorted(sap_warp.__all__)
    overview = (api / "index.md").read_text(encoding="utf-8")
    assert [name for name in sap_warp.__all__ if f"#sap_warp.{name})" not in overview] == []


def test_guides_and_reference_point_at_each_other():
    """Each page of the reference names its guide, and that guide the page."""
    for page in (ROOT / "docs" / "api").glob("*.md"):
        if page.stem == "index":
            continue
        guides = re.findall(r"\]\(\.\./([\w/-]+\.md)", page.read_text(encoding="utf-8"))
        assert any(f"api/{page.name}" in (ROOT / "docs" / guide).read_text(encoding="utf-8") for guide in guides), page


def test_nothing_is_fetched_by_a_reader():
    """The site uses what it brings along: no fonts and scripts of other hosts."""
    settings = yaml.safe_load(NAVIGATION)
    assert settings["theme"]["font"] is False
    assert "extra_javascript" not in settings
    for style in settings["extra_css"]:
        text = (ROOT / "docs" / style).read_text(encoding="utf-8")
        assert "url(" not in text and "@import" not in text


def test_words_are_spelt_right():
    """With codespell's own list of common mistakes; needs no network."""
    pytest.importorskip("codespell_lib")
    places = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "sap_warp", "tools"]
    command = [sys.executable, "-m", "codespell_lib", "--toml", "pyproject.toml", *places]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_figures_are_what_the_tool_draws(tmp_path, monkeypatch):
    """Drawn again they are the same pictures, up to the version of the library that draws."""
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import draw_math
    finally:
        sys.path.pop(0)
    monkeypatch.setattr(draw_math, "IMAGES", tmp_path)
    draw_math.main()
    drawn = {file.name for file in tmp_path.iterdir()}
    assert drawn == {file.name for file in (ROOT / "docs" / "images").glob("math_*.svg")}
    used = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert [name for name in drawn if f"images/{name}" not in used] == []
    assert all(Path(tmp_path / name).stat().st_size > 1000 for name in drawn)
