"""What `sap_warp.collision.newton_compat` relies on is there in the installed Newton."""

import re
import sys
import tomllib
from pathlib import Path

import newton
import pytest
from newton.geometry import BroadPhaseSAP, NarrowPhase

import sap_warp
from sap_warp.collision import newton_compat
from tests.support.scenes import add_ball, builder

ROOT = Path(newton_compat.__file__).parents[2]


@pytest.fixture(scope="module")
def objects():
    """One instance of each kind that the file reaches into."""
    b = builder()
    add_ball(b, (0.0, 0.0, 0.1))
    b.add_ground_plane()
    model = b.finalize(device="cpu")
    pipeline = newton.CollisionPipeline(model, broad_phase="sap")
    sorting = BroadPhaseSAP(model.shape_world, sort_type="tile", device="cpu")
    assert type(pipeline.broad_phase) is type(sorting)
    assert type(pipeline.narrow_phase) is NarrowPhase
    stages = {"narrow_phase": pipeline.narrow_phase, "sweep_and_prune": sorting}
    stages["narrow_phase_module"] = sys.modules[NarrowPhase.__module__]
    return {"model": model, "builder": b, "pipeline": pipeline, **stages}


@pytest.mark.parametrize(
    ("owner", "member"), [(owner, name) for owner, names in newton_compat.USED_MEMBERS.items() for name in names]
)
def test_members_exist(objects, owner, member):
    """Each member by itself, so that a failure names all that a new version of Newton moved."""
    assert hasattr(objects[owner], member), (
        f"newton {newton.__version__} has no {type(objects[owner]).__name__}.{member}, which "
        f"sap_warp/collision/newton_compat.py relies on; it was written for newton {newton_compat.TESTED}."
    )


def test_constants_are_newton_s():
    """What is copied from inside of Newton."""
    from newton._src.geometry.contact_reduction_global import CONTACT_ID_BITS
    from newton._src.geometry.flags import MeshProperties

    assert newton_compat.SORTED_TRIANGLES_MAX == 1 << int(CONTACT_ID_BITS), f"newton {newton.__version__}"
    assert newton_compat._SURFACE_VELOCITY == int(MeshProperties.SURFACE_VELOCITY), f"newton {newton.__version__}"


def test_the_tested_version_is_the_required_one():
    """pyproject.toml allows the versions that the file was written for."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    (bounds,) = (line.removeprefix("newton") for line in wanted if line.startswith("newton>"))
    assert bounds.startswith(f">={newton_compat.TESTED},<"), bounds
    assert newton.__version__.startswith(f"{newton_compat.TESTED}."), newton.__version__


def test_no_other_file_reaches_into_newton():
    """Private members and swapped stages appear nowhere else in the package."""
    names = [m for owner in ("model", "pipeline") for m in newton_compat.USED_MEMBERS[owner] if m.startswith("_")]
    reached = re.compile(
        "|".join([r"newton\._src", *(rf"\.{name}\b" for name in [*names, "geom_transform", "geom_data"])])
    )
    for file in Path(sap_warp.__file__).parent.rglob("*.py"):
        if file.name != "newton_compat.py":
            assert not reached.findall(file.read_text(encoding="utf-8")), file.name
