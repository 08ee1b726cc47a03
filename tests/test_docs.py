"""Pages that are made from code are up to date."""

import json
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
HOW = "write them anew: python -m tests.test_docs"


def generated():
    from sap_warp.scene.json_schema import scene_json_schema
    from sap_warp.scene.markdown import scene_reference

    return {
        "scene_reference.md": scene_reference(),
        "scene.schema.json": json.dumps(scene_json_schema(), indent=1) + "\n",
    }


@pytest.mark.parametrize("name", ["scene_reference.md", "scene.schema.json"])
def test_generated_page_is_up_to_date(name):
    """The committed page is what the code says today."""
    assert (DOCS / name).read_text(encoding="utf-8") == generated()[name], HOW


if __name__ == "__main__":
    for page, text in generated().items():
        (DOCS / page).write_text(text, encoding="utf-8")
