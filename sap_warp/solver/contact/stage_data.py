"""What stage 3 works with and makes: contact rows and terms of the dofs."""

import functools
from typing import NamedTuple

import warp as wp

from ...core.kernels.types import Types
from ..model.layout import Layout
from ..model.links import JointFrames
from ..model.motion_data import make_motion_data
from ..terms.contact import ContactLaw
from ..terms.dof import make_dof_terms
from .data import make_contact_data
from .weight import make_mobility


class ContactPrecisions(NamedTuple):
    """Precisions of stage 3: all that its device functions depend on."""

    pose: Types
    """Of poses in free motion's data."""
    contact_pose: Types
    """That poses are rounded to for contacts."""
    dynamics: Types
    """Of free motion."""
    weight: Types
    """Of the contact weight w."""
    types: Types
    """Of the solve."""


@functools.cache
def make_contact_stage(precisions: ContactPrecisions):
    """Struct of what the kernel works with and makes."""
    pose, _, dynamics, weight, types = precisions
    Motion, Contacts = make_motion_data(pose, dynamics), make_contact_data(types)
    Terms, Mobility = make_dof_terms(types).DofTerms, make_mobility(weight).Mobility

    @wp.struct
    class ContactStage:
        layout: Layout
        mobility: wp.array(dtype=Mobility)
        law: ContactLaw
        motion: Motion
        joints: JointFrames
        q: wp.array(dtype=wp.float64)
        found: wp.array(dtype=wp.int32)  # contacts that binning found, by world
        slot: wp.array(dtype=wp.int32)  # which of them were kept, ``slots`` for each world
        slots: int
        newcomer: wp.array(dtype=wp.int32)  # contacts that found a world full, see `Bins`
        ordered: int  # 1 if a world that is not full has its slots in order already
        scratch: wp.array(dtype=weight.vec3)
        rows: Contacts
        listed: wp.array(dtype=wp.int32)  # by world: one more than the rows that its lists were made from; one lane
        terms: Terms
        contact_count: wp.array(dtype=wp.int32)
        truncated: wp.array(dtype=wp.int32)
        lost: wp.array(dtype=wp.int64)  # the same over all steps
        most_lost: wp.array(dtype=wp.int32)  # and the most in one step

    return ContactStage
