"""`SapCollisionModel`: the shapes of all worlds."""

from __future__ import annotations

import newton
import warp as wp

from ..model.model import SapModel
from ..model.newton_view import NewtonView
from .state import SapCollisionState


class SapCollisionModel(NewtonView):
    """Shape metadata for broad phase, narrow phase and contact writing: a view of a Newton model, without copies.

    Every attribute that is not defined here is Newton's own (``collision_model.shape_gap`` *is*
    ``model.shape_gap``), so a margin or gap changed through either object is seen by the next `collide`. Shape
    types, flags, groups, filters and worlds are read when a pipeline is built.
    """

    _wrapped = "newton_model"

    newton_model: newton.Model
    """The wrapped model."""

    def __init__(self, model: newton.Model | SapModel):
        """Wrap ``model``; it needs no joints.

        Raises:
            TypeError: ``model`` is neither a Newton model nor a `SapModel`.
        """
        if isinstance(model, SapModel):
            model = model.newton_model
        if not isinstance(model, newton.Model):
            raise TypeError(f"SapCollisionModel wraps a newton.Model or a SapModel, got {type(model).__name__}.")
        self.newton_model = model

    @property
    def shape_labels(self) -> list[str]:
        """Label of each shape."""
        return list(self.newton_model.shape_label)

    @property
    def body_labels(self) -> list[str]:
        """Label of each body."""
        return list(self.newton_model.body_label)

    def state(self) -> SapCollisionState:
        """Clone the model's initial poses and twists."""
        model = self.newton_model
        return SapCollisionState(
            body_q=wp.clone(model.body_q, requires_grad=False), body_qd=wp.clone(model.body_qd, requires_grad=False)
        )


def newton_model_of(model: SapCollisionModel | SapModel | newton.Model) -> newton.Model:
    """Return the Newton model of a collision model, a `SapModel` or a Newton model.

    Raises:
        TypeError: ``model`` has another type.
    """
    return model.newton_model if isinstance(model, SapCollisionModel) else SapCollisionModel(model).newton_model
