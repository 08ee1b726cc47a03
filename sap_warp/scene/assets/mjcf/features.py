"""Table of all MJCF elements and attributes: who honours it, why it has no meaning here, or what a note says.

A test compares the table with MuJoCo's own schema, so that nothing new is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...text.nodes import Node, list_locations, walk
from .reader import MjcfDocument

HERE = "honoured by this package"
NEWTON = "honoured by Newton's importer"
CHECK = "kept by Newton's importer; SolverSAP honours it or refuses the model by name"
LOOKS = "for the eye, for files or for users: no effect on motion"
NUMERICS = "setting of MuJoCo's own numerical methods; SAP has its own"


@dataclass(frozen=True)
class Unsupported:
    """Something that is listed as unsupported where it is used."""

    reason: str
    """What happens instead."""
    applies: Callable[[Node, str], bool] = lambda node, name: True
    """Test of an element and the name of the attribute: True if its value asks for anything."""


Meaning = str | Unsupported


@dataclass(frozen=True)
class Element:
    """An MJCF element and its attributes."""

    meaning: Meaning
    attributes: dict[str, Meaning]


def _not_zero(node: Node, name: str) -> bool:
    return bool(node.numbers(name).any())


def _is(*values: str) -> Callable[[Node, str], bool]:
    return lambda node, name: node.get(name) in values


def _is_not(*values: str) -> Callable[[Node, str], bool]:
    return lambda node, name: node.get(name) not in values


def _several(node: Node, name: str) -> bool:
    return len(node.numbers(name)) > 1


def _of_free(node: Node, name: str) -> bool:
    """Return True if a free joint asks for it, directly or by its class: MuJoCo gives it to both."""
    return node.get("type") == "free" and _not_zero(node, name)


def collides(geom: Node) -> bool:
    """Return True if a geom collides with others without being named in a pair."""
    return geom.number("contype", 1) != 0 or geom.number("conaffinity", 1) != 0


def _of_colliding(applies: Callable[[Node, str], bool]) -> Callable[[Node, str], bool]:
    return lambda node, name: collides(node) and applies(node, name)


def _element(meaning: Meaning, *groups: tuple[Meaning, str]) -> Element:
    return Element(meaning, {name: what for what, names in groups for name in names.split()})


_ORIENTATION = (HERE, "axisangle euler quat xyaxes zaxis")
_FLUID = "the medium drags on the box of the body's inertia, not on an ellipsoid"
_ACTUATOR = "actuators of this kind are not simulated; it exerts no force"
_OWN_CODE = "such gains, biases and dynamics are not simulated; write a motor and compute its input"
_DELAY = Unsupported("delays of actuators are not simulated; it acts at once", _not_zero)
_ON_ACTUATOR = Unsupported(
    "of an actuator does not act; give it to the joint",
    lambda node, name: _not_zero(node, name) and (node.get("joint") is None or _several(node, name)),
)
_PLUGIN = Unsupported("plugins are not loaded")
_FLEX = Unsupported("flexible bodies are not simulated")
_SKIN = Unsupported("skins are not drawn")
_PLAIN = "name class user group"
_TRANSMISSION = "joint jointinparent tendon site refsite cranksite slidersite cranklength gear"
_ON_BODY = Unsupported("contacts do not pull; the solver refuses actuators on bodies")
_RATIO = Unsupported(
    "the solver refuses damping ratios of actuators that are not on a joint; give it kv",
    lambda node, name: node.get("joint") is None and node.get("jointinparent") is None and _not_zero(node, name),
)
_NO_RANGE = Unsupported(
    "the solver refuses muscles without lengthrange; copy it from MuJoCo's model.actuator_lengthrange",
    lambda node, name: node.get("lengthrange") is None,
)
_RANGES = "ctrllimited ctrlrange forcelimited forcerange"
_POLYNOMIAL = Unsupported("takes one number here; the others do not act", _several)
_SPRING = Unsupported(
    "takes one number here, and none for a free joint; the others do not act",
    # a spring that a class gives to its hinges is not meant to tie the free base to the place where it starts
    lambda node, name: _several(node, name) or (name not in node.inherited and _of_free(node, name)),
)
_OF_FREE = Unsupported("does not act on a free joint", lambda node, name: _of_free(node, name))
_CONDIM = {
    1: "has no friction in MuJoCo where both geoms have it; here the materials' friction acts",
    4: "torsional friction is not simulated; contacts have sliding friction",
    6: "torsional and rolling friction are not simulated; contacts have sliding friction",
}
_CONDIM_OF_PAIR = "pairs have sliding friction here, whatever their condim"


def _actuator(meaning: Meaning, *groups: tuple[Meaning, str]) -> Element:
    return _element(
        meaning,
        (LOOKS, _PLAIN),
        (CHECK, _TRANSMISSION),
        (_ON_BODY, "body"),
        (CHECK, _RANGES),
        (NUMERICS, "lengthrange"),
        (_DELAY, "delay"),
        (NUMERICS, "interp nsample"),
        (_ON_ACTUATOR, "armature damping"),
        *groups,
    )


def _tendon() -> Element:
    return _element(
        NEWTON,
        (HERE, "class limited range springlength frictionloss armature"),
        (_POLYNOMIAL, "stiffness damping"),
        (CHECK, "actuatorfrclimited actuatorfrcrange"),
        (NUMERICS, "solimpfriction solimplimit solreffriction solreflimit"),
        (LOOKS, "name group user material rgba width"),
        (Unsupported("springs do not yield", _not_zero), "springyield"),
        (Unsupported("limits act where the range ends", _not_zero), "margin"),
    )


def _section(meaning: Meaning = HERE) -> Element:
    return Element(meaning, {})


def _unsupported_actuator(attributes: str) -> Element:
    return _actuator(Unsupported(_ACTUATOR), (LOOKS, attributes))


ELEMENTS: dict[str, Element] = {
    "compiler": _element(
        HERE,
        (
            HERE,
            "angle assetdir autolimits balanceinertia boundinertia boundmass coordinate eulerseq meshdir settotalmass",
        ),
        (HERE, "fitaabb strippath texturedir"),
        (NEWTON, "inertiafromgeom inertiagrouprange"),
        (LOOKS, "discardvisual fusestatic passthrough savecanonical savecompiled saveinertial usethread"),
        (Unsupported("attached models keep the settings of the whole", _is_not("warning", "error")), "conflict"),
        (Unsupported("free bodies keep the frames they are drawn in", _is("true")), "alignfree"),
    ),
    "compiler/lengthrange": _element(
        NUMERICS,
        (NUMERICS, "accel interval inttotal maxforce mode timeconst timestep tolrange useexisting uselimit"),
    ),
    "option": _element(
        HERE,
        (HERE, "actuatorgroupdisable gravity timestep"),
        (NEWTON, "density viscosity wind"),
        (NUMERICS, "ccd_iterations ccd_tolerance cone impratio integrator iterations jacobian ls_iterations"),
        (NUMERICS, "ls_tolerance noslip_iterations noslip_tolerance o_friction o_margin o_solimp o_solref"),
        (NUMERICS, "sdf_initpoints sdf_iterations sleep_tolerance solver tolerance"),
        (LOOKS, "magnetic"),
    ),
    "option/flag": _element(
        HERE,
        (HERE, "actuation clampctrl constraint contact damper equality filterparent frictionloss gravity limit spring"),
        (Unsupported("contacts keep their own parameters", _is("enable")), "override"),
        (Unsupported("contacts are those of SAP", _is("enable")), "ipc"),
        (NUMERICS, "autoreset diagexact energy eulerdamp fwdinv invdiscrete island midphase multiccd nativeccd"),
        (NUMERICS, "refsafe sleep speculative warmstart"),
        (LOOKS, "sensor"),
    ),
    "size": _element(
        LOOKS,
        (LOOKS, "memory nconmax njmax nkey nstack nuser_actuator nuser_body nuser_cam nuser_geom nuser_jnt"),
        (LOOKS, "nuser_sensor nuser_site nuser_tendon nuserdata"),
    ),
    "statistic": _element(LOOKS, (LOOKS, "center extent meaninertia meanmass meansize")),
    "visual": _section(LOOKS),
    "extension": _section(),
    "extension/plugin": _section(_PLUGIN),
    "asset": _section(),
    "asset/mesh": _element(
        NEWTON,
        (HERE, "class file"),
        (NEWTON, "face maxhullvert name normal refpos refquat scale texcoord vertex"),
        (LOOKS, "content_type material smoothnormal"),
        (Unsupported("meshes that MuJoCo makes itself are not loaded"), "builtin"),
        (LOOKS, "params"),
        (Unsupported("masses are those of the solid mesh", _is_not("exact", "legacy")), "inertia"),
    ),
    "asset/mesh/plugin": _section(_PLUGIN),
    "asset/hfield": _element(NEWTON, (NEWTON, "elevation file name ncol nrow size"), (LOOKS, "content_type")),
    "asset/skin": _section(_SKIN),
    "asset/texture": _section(LOOKS),
    "asset/material": _section(LOOKS),
    "asset/model": _section(),
    "body": _element(
        NEWTON,
        _ORIENTATION,
        (HERE, "childclass mocap"),
        (NEWTON, "gravcomp name pos"),
        (LOOKS, "fuse simple sleep user"),
    ),
    "body/inertial": _element(NEWTON, _ORIENTATION, (NEWTON, "diaginertia fullinertia mass pos")),
    "body/joint": _element(
        NEWTON,
        (HERE, "limited range actuatorfrclimited class"),
        (CHECK, "actuatorfrcrange"),
        (NEWTON, "axis name pos ref springref type"),
        (HERE, "armature"),
        (_OF_FREE, "frictionloss"),
        (_POLYNOMIAL, "damping"),
        (_SPRING, "stiffness"),
        (NUMERICS, "solimpfriction solimplimit solreffriction solreflimit"),
        (LOOKS, "group user"),
        (
            Unsupported(
                "gravity compensation acts beyond the force range of the joint",
                lambda node, name: node.get(name) == "true" and node.get("actuatorfrcrange") is not None,
            ),
            "actuatorgravcomp",
        ),
        (Unsupported("give stiffness and damping in its place", _not_zero), "springdamper"),
        (Unsupported("springs do not yield", _not_zero), "springyield"),
        (
            Unsupported(
                "limits act where the range ends",
                lambda node, name: _not_zero(node, name) and node.get("range") is not None,
            ),
            "margin",
        ),
    ),
    "body/freejoint": _element(
        NEWTON,
        (NEWTON, "name"),
        (LOOKS, "group"),
        (Unsupported("the body keeps the frame it is drawn in", _is("true")), "align"),
    ),
    "body/geom": _element(
        NEWTON,
        _ORIENTATION,
        (HERE, "class fitscale"),
        (NEWTON, "conaffinity contype density friction fromto gap group hfield margin mass mesh name pos"),
        (NEWTON, "size solref"),
        (NUMERICS, "solimp solmix fluidcoef"),
        (LOOKS, "castshadow material rgba user"),
        (Unsupported("geoms of this type are not loaded", _is("sdf")), "type"),
        (Unsupported("see contacts", _of_colliding(_is_not("3"))), "condim"),
        (Unsupported("contacts mix the materials of both shapes", _of_colliding(_not_zero)), "priority"),
        (Unsupported(_FLUID, _is_not("none")), "fluidshape"),
        (Unsupported("contacts do not stick", _not_zero), "adhesion"),
        (Unsupported("surfaces do not move along the shape", _not_zero), "surfacevel"),
        (Unsupported("masses are those of the solid shape", _is("true")), "shellinertia"),
    ),
    "body/geom/plugin": _section(_PLUGIN),
    "body/attach": _element(HERE, (HERE, "body frame model prefix")),
    "body/site": _element(
        NEWTON, _ORIENTATION, (NEWTON, "fromto name pos size type"), (LOOKS, "class group material mesh rgba user")
    ),
    "body/camera": _section(LOOKS),
    "body/light": _section(LOOKS),
    "body/plugin": _section(_PLUGIN),
    "body/flexcomp": _section(_FLEX),
    "deformable": _section(),
    "deformable/flex": _section(_FLEX),
    "deformable/skin": _section(_SKIN),
    "contact": _section(),
    "contact/pair": _element(
        HERE,
        (HERE, "class condim friction geom1 geom2"),
        (LOOKS, "name"),
        (NUMERICS, "gap solimp solref solreffriction"),
        (Unsupported("the margins of the two shapes act", _not_zero), "margin"),
        (Unsupported("contacts do not stick", _not_zero), "adhesion"),
    ),
    "contact/exclude": _element(HERE, (HERE, "body1 body2"), (LOOKS, "name")),
    "tendon": _section(),
    "tendon/fixed": _tendon(),
    "tendon/fixed/joint": _element(HERE, (HERE, "coef joint")),
    "tendon/spatial": _tendon(),
    "tendon/spatial/site": _element(CHECK, (NEWTON, "site")),
    "tendon/spatial/geom": _element(CHECK, (NEWTON, "geom sidesite")),
    "tendon/spatial/pulley": _element(CHECK, (NEWTON, "divisor")),
    "equality": _section(),
    "equality/connect": _element(
        NEWTON, (HERE, "class"), (NEWTON, "active anchor body1 body2 name site1 site2"), (NUMERICS, "solimp solref")
    ),
    "equality/weld": _element(
        NEWTON,
        (HERE, "class"),
        (NEWTON, "active anchor body1 body2 name relpose site1 site2 torquescale"),
        (NUMERICS, "solimp solref"),
    ),
    "equality/joint": _element(
        NEWTON, (HERE, "class"), (NEWTON, "active joint1 joint2 name polycoef"), (NUMERICS, "solimp solref")
    ),
    "equality/tendon": _element(
        HERE, (HERE, "active class polycoef tendon1 tendon2"), (LOOKS, "name"), (NUMERICS, "solimp solref")
    ),
    "equality/flex": _section(_FLEX),
    "equality/flexstrain": _section(_FLEX),
    "actuator": _section(),
    "actuator/general": _actuator(
        NEWTON,
        (CHECK, "actdim actearly actlimited actrange biasprm dynprm gainprm"),
        (Unsupported(_OWN_CODE, _is_not("none", "integrator", "filter", "filterexact", "muscle")), "dyntype"),
        (Unsupported(_OWN_CODE, _is_not("fixed", "affine", "muscle")), "gaintype"),
        (Unsupported(_OWN_CODE, _is_not("none", "affine", "muscle")), "biastype"),
        (Unsupported("controls keep their own range", _not_zero), "inheritrange ffrange velrange"),
        (Unsupported("the actuator takes its one input"), "input"),
    ),
    "actuator/motor": _actuator(NEWTON),
    "actuator/position": _actuator(
        NEWTON,
        (NEWTON, "kp kv inheritrange"),
        (_RATIO, "dampratio"),
        (HERE, "timeconst"),
    ),
    "actuator/velocity": _actuator(NEWTON, (NEWTON, "kv")),
    "actuator/intvelocity": _actuator(NEWTON, (_RATIO, "dampratio"), (CHECK, "actlimited actrange inheritrange kp kv")),
    "actuator/damper": _actuator(NEWTON, (CHECK, "kv")),
    "actuator/orientation": _unsupported_actuator("dampratio input kp kv"),
    "actuator/pid": _unsupported_actuator(
        "dampratio ffrange imax inheritrange input ki kp kv posrange slewmax velrange"
    ),
    "actuator/cylinder": _actuator(HERE, (HERE, "area bias diameter timeconst")),
    "actuator/muscle": _actuator(_NO_RANGE, (HERE, "force fpmax fvmax lmax lmin range scale tausmooth timeconst vmax")),
    "actuator/adhesion": _unsupported_actuator("gain"),
    "actuator/dcmotor": _unsupported_actuator(
        "cogging controller inductance input lugre motorconst nominal resistance saturation thermal"
    ),
    "actuator/plugin": _section(_PLUGIN),
    "sensor": _section(LOOKS),
    "custom": _section(LOOKS),
    "keyframe": _section(),
    "keyframe/key": _element(
        HERE,
        (HERE, "act ctrl mpos mquat name qpos qvel"),
        (Unsupported("the clock starts at 0", _not_zero), "time"),
        (Unsupported("nothing deforms plastically"), "plastic"),
    ),
}
"""By path below <mujoco>; <worldbody>, and bodies in bodies, are ``body``. Elements that are listed without attributes
and are not honoured here stand for everything in them."""


def path_of(path: tuple[str, ...]) -> str:
    """Return the key of an element in the table; parts of a default class have that of the elements they are for."""
    tags = ["body" if tag == "worldbody" else tag for tag in path]
    while tags[:2] == ["body", "body"]:
        del tags[0]
    return "/".join(tags)


def covering(path: str) -> str | None:
    """Return the table entry that speaks for ``path``: itself, or an enclosing one that stands for all in it."""
    if path in ELEMENTS:
        return path
    above = path.rpartition("/")[0]
    while above:
        if above in ELEMENTS:
            element = ELEMENTS[above]
            return above if not element.attributes and element.meaning != HERE else None
        above = above.rpartition("/")[0]
    return None


def list_unsupported(document: MjcfDocument, self_collisions: bool = True) -> list[str]:
    """List what a document asks for and nobody simulates: one line per kind, with the place of its first use.

    Args:
        document: As it was read.
        self_collisions: Whether its geoms meet each other.
    """
    found: dict[str, list[str]] = {}
    for node in (*document.root, *(key.node for key in document.keys)):
        path = ("keyframe", "key") if node.tag == "key" else (node.tag,)
        _look(node, path, found)
    if self_collisions:
        _look_at_pairs(document, found)
    else:  # with other things in the scene a geom of condim 1 has the friction of their materials in MuJoCo too
        found.pop(f'<geom condim="1">: {_CONDIM[1]}', None)
    return list_locations(found)


def drop_numerics(document: MjcfDocument) -> None:
    """Remove settings of MuJoCo's own methods from <option>: Newton does not know all their values, such as PGS."""
    numerics = [name for name, meaning in ELEMENTS["option"].attributes.items() if meaning == NUMERICS]
    for option in document.sections("option"):
        option.drop(*numerics)


def _look(node: Node, path: tuple[str, ...], found: dict[str, list[str]]) -> None:
    key = path_of(path)
    element = ELEMENTS.get(key)
    if element is None:
        found.setdefault(f"<{node.tag}>: not known here; it is not loaded", []).append(node.location())
        return
    if isinstance(element.meaning, Unsupported) and element.meaning.applies(node, node.tag):
        found.setdefault(f"<{node.tag}>: {element.meaning.reason}", []).append(node.location())
        return
    for name in node.attrib if element.attributes else ():
        meaning = element.attributes.get(name)
        if meaning is None:
            found.setdefault(f"<{node.tag} {name}>: not known here; it does not act", []).append(node.location(name))
        elif isinstance(meaning, Unsupported) and meaning.applies(node, name):
            reason = _CONDIM.get(int(node.number(name, 3)), "") if name == "condim" else meaning.reason
            value = "" if node.tag == "key" else f'="{node.get(name)}"'
            what = f"<{node.tag} {name}{value}>: {reason}"
            found.setdefault(what, []).append(node.location(name))
    if element.attributes or element.meaning == HERE:
        for child in node:
            _look(child, (*path, child.tag), found)


def _look_at_pairs(document: MjcfDocument, found: dict[str, list[str]]) -> None:
    """List pairs whose condim, their own or the larger one of their geoms, is not 3."""
    nodes = [node for world in document.sections("worldbody") for node in walk(world)]
    geoms = {node.get("name"): node for node in nodes if node.tag == "geom"}
    for pair in document.elements("contact", "pair"):
        both = [geoms[pair.get(name)].number("condim", 3) for name in ("geom1", "geom2")]
        condim = int(pair.number("condim", max(both)))
        if condim != 3:
            found.setdefault(f'<pair condim="{condim}">: {_CONDIM_OF_PAIR}', []).append(pair.location("condim"))
