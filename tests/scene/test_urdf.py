"""URDF files with what does not matter for the motion missing or broken: the rest of them loads."""

from __future__ import annotations

import warnings

import pytest

from sap_warp.scene.assets.urdf import prepare_urdf
from sap_warp.scene.text.errors import Complaint

LINK = '<link name="{name}"><inertial><mass value="1"/></inertial>{content}</link>'
JOINT = '<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{content}</joint>'
MESH = "<{tag}><geometry><mesh filename='{file}'/></geometry></{tag}>"
EMPTY = '<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1"><asset/></COLLADA>'


def robot(*parts):
    return f"<robot name='r'>{''.join(parts)}</robot>"


def links(*contents):
    return "".join(LINK.format(name=name, content=text) for name, text in zip("abc", contents, strict=False))


def test_couplings_of_joints_that_do_not_move_are_left_out():
    """Reduced models have them: joints that were made fixed and still follow others. Newton refuses such a file."""
    follow = "<mimic joint='j'/>"
    moving = JOINT.format(name="j", kind="revolute", parent="a", child="b", content="")
    fixed = JOINT.format(name="k", kind="fixed", parent="b", child="c", content=follow)
    text, notes = prepare_urdf(robot(links("", "", ""), moving, fixed), visuals=False)
    assert "mimic" not in text and notes == []
    still = moving.replace("revolute", "fixed")
    text, notes = prepare_urdf(robot(links("", "", ""), still, fixed.replace("fixed", "revolute")), visuals=False)
    assert "mimic" not in text and "the joint that it follows is fixed" in notes[0]


def test_meshes_for_the_eye_may_be_missing_or_unreadable(tmp_path):
    (tmp_path / "empty.dae").write_text(EMPTY)
    (tmp_path / "r.urdf").write_text(
        robot(links(MESH.format(tag="visual", file="gone.stl") + MESH.format(tag="visual", file="empty.dae")))
    )
    with pytest.warns(UserWarning, match="visual meshes are left out") as caught:
        text, _ = prepare_urdf(tmp_path / "r.urdf", visuals=True)
    assert "visual" not in text
    assert [str(warning.message) for warning in caught] == [
        "missing visual meshes are left out: gone.stl",
        "unreadable visual meshes are left out: empty.dae",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare_urdf(tmp_path / "r.urdf", visuals=False)  # nothing to say of what is not asked for


@pytest.mark.parametrize("tag, colliding", [("collision", False), ("visual", True)])
def test_colliding_meshes_must_be_there(tmp_path, tag, colliding):
    (tmp_path / "r.urdf").write_text(robot(links(MESH.format(tag=tag, file="gone.stl"))))
    with pytest.raises(Complaint, match=r"mesh files are missing: gone\.stl"):
        prepare_urdf(tmp_path / "r.urdf", visuals=True, colliding_visuals=colliding)
