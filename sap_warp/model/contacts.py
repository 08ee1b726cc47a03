"""`SapContacts`: the bounded buffer between collision detection and the solver."""

from __future__ import annotations

from typing import Any

import newton
import numpy as np
import warp as wp

from .newton_view import NewtonView


class ContactCapacityError(RuntimeError):
    """Contacts were dropped because a buffer was too small, and ``strict_capacity`` is set."""


class SapContacts(NewtonView):
    """Rigid contacts of all worlds in one flat buffer: a view of a `newton.Contacts`, without copies.

    Every attribute that is not defined here is Newton's own: ``contacts.rigid_contact_normal`` *is*
    ``contacts.newton_contacts.rigid_contact_normal``. Contact i is valid for
    ``i < min(rigid_contact_count, rigid_contact_max)``; the counter goes on counting when the buffer is full.

    For round shapes the points lie on the core (a sphere's centre, a capsule's axis), the radius is part of the
    margin, and point + offset lies on the effective surface. With all points in world frame

        phi0 = n.(point1 - point0) - margin0 - margin1      [m], negative in penetration,

    where n points from shape 0 to shape 1.

    If `SapCollisionPipeline` found more than the buffer holds, the rows are the deepest contacts of each world's
    share of the capacity, and ``sap_dropped_by_world`` says how many each world lost.
    """

    _wrapped = "newton_contacts"

    newton_contacts: newton.Contacts
    """The wrapped buffer."""

    def __init__(self, contacts: newton.Contacts):
        """Wrap ``contacts``.

        Raises:
            TypeError: ``contacts`` is not a Newton contact buffer.
        """
        if not isinstance(contacts, newton.Contacts):
            raise TypeError(f"SapContacts wraps a newton.Contacts, got {type(contacts).__name__}.")
        self.newton_contacts = contacts

    @property
    def rigid_contact_max(self) -> int:
        """Contacts that the buffer can hold, over all worlds."""
        return int(self.newton_contacts.rigid_contact_max)


def sap_contacts_from_newton(contacts: newton.Contacts) -> SapContacts:
    """View a Newton contact buffer as `SapContacts`; no array is copied."""
    return SapContacts(contacts)


def newton_contacts_of(contacts: SapContacts | newton.Contacts) -> newton.Contacts:
    """Return the Newton buffer of either kind of contacts.

    Raises:
        TypeError: ``contacts`` is neither.
    """
    if isinstance(contacts, SapContacts):
        return contacts.newton_contacts
    if isinstance(contacts, newton.Contacts):
        return contacts
    raise TypeError(f"contacts is a {type(contacts).__name__}; expected SapContacts or newton.Contacts.")


_WORLDS_SHOWN = 8


def dropped_by_world(contacts: newton.Contacts) -> wp.array | None:
    """Return the contacts that each world lost when ``contacts`` last overflowed; None if unknown.

    Only to be read while the buffer's counter is above its capacity. With several worlds there is one entry more, for
    contacts of no world, world -1.
    """
    found: wp.array | None = getattr(contacts, "sap_dropped_by_world", None)
    return found


def set_dropped_by_world(contacts: Any, dropped: wp.array | None) -> None:
    """Store the counts with ``contacts`` for whoever reads the buffer next."""
    contacts.sap_dropped_by_world = dropped


def name_worlds(dropped: np.ndarray) -> str:
    """Name the worlds that lost contacts: ``"world 3"`` or ``"2 worlds (1, 5)"``; empty if none did."""
    bins = np.flatnonzero(dropped)
    if len(bins) == 0:
        return ""
    names = [str(i) if i < max(len(dropped) - 1, 1) else "-1" for i in bins]
    if len(bins) == 1:
        return f"world {names[0]}"
    shown = ", ".join(names[:_WORLDS_SHOWN]) + (", ..." if len(names) > _WORLDS_SHOWN else "")
    return f"{len(bins)} worlds ({shown})"
