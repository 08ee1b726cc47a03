"""The notebook runs from top to bottom, as a reader would run it."""

import os

import pytest

from tests.support.markdown import ROOT

NOTEBOOK = ROOT / "examples" / "tour.ipynb"


def test_the_tour_runs_from_top_to_bottom(tmp_path):
    """In a kernel of its own; no cell fails, none warns, and the picture is one."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    kernel = {"env": {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path)}}
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute(**kernel)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    said = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stderr")
    assert "Warning" not in said.replace("Warp CUDA warning", "")
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_no_outputs_are_stored():
    """They would be of another machine."""
    import json

    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
