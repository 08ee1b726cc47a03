"""`SapContacts`: the bounded buffer between collision detection and the solver."""

from __future__ import annotations

import newton

from .views import NewtonView


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
    """The Newton buffer of either kind of contacts.

    Raises:
        TypeError: ``contacts`` is neither.
    """
    if isinstance(contacts, SapContacts):
        return contacts.newton_contacts
    if isinstance(contacts, newton.Contacts):
        return contacts
    raise TypeError(f"contacts is a {type(contacts).__name__}; expected SapContacts or newton.Contacts.")
