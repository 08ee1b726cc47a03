"""Contacts without a direction.

Where two surfaces touch to within about 1e-6 m, Newton's GJK finds neither a separating nor a penetrating direction and
writes a normal of zero length (newton 1.7; seen for plane / convex mesh, cylinder / box and ellipsoid / box). Shapes
that are authored just touching do this in their first step. A plane knows its normal; any other such contact is
taken out, and the next step, in which the surfaces overlap or part, has it back.

The same pass takes out rows that were never written. When a manifold of up to four points reaches over the end of the
buffer, Newton reserves its rows and writes none of them, so the last rows of a full buffer may be those of an earlier
pass. Newton sets ``rigid_contact_tids`` to 0 wherever it writes; the last rows are set to -1 here after every pass.
"""

from __future__ import annotations

import newton
import warp as wp

PLANE = wp.constant(int(newton.GeoType.PLANE))
LAST_ROWS = wp.constant(8)
"""Rows at the end of the buffer that a pass may leave unwritten though it counted them, generously."""
CUDA_THREADS = 16384
"""Threads that share the contacts on CUDA."""


@wp.func
def in_body_frame(vector: wp.vec3, shape: int, shape_body: wp.array[int], body_q: wp.array[wp.transform]) -> wp.vec3:
    """A world vector in the frame of the shape's body."""
    body = shape_body[shape]
    if body < 0:
        return vector
    return wp.quat_rotate_inv(wp.transform_get_rotation(body_q[body]), vector)


@wp.kernel(enable_backward=False)
def mend_normals(
    body_q_in: wp.array[wp.transform],
    shape_body_in: wp.array[int],
    shape_type_in: wp.array[int],
    shape_pose_in: wp.array[wp.transform],
    count_in: wp.array[int],
    margin0_in: wp.array[float],
    margin1_in: wp.array[float],
    threads: int,
    shape0_out: wp.array[int],
    shape1_out: wp.array[int],
    normal_out: wp.array[wp.vec3],
    offset0_out: wp.array[wp.vec3],
    offset1_out: wp.array[wp.vec3],
    tids_out: wp.array[int],
) -> None:
    """Give contacts without a direction the plane's normal, or take them out (shapes -1); take out unwritten rows."""
    capacity = normal_out.shape[0]
    for i in range(wp.tid(), wp.min(count_in[0], capacity), threads):
        if count_in[0] > capacity and tids_out[i] < 0:
            shape0_out[i] = -1
            shape1_out[i] = -1
            normal_out[i] = wp.vec3()
        if i >= capacity - LAST_ROWS:
            tids_out[i] = -1
        shape0 = shape0_out[i]
        shape1 = shape1_out[i]
        if shape0 >= 0 and shape1 >= 0 and not (wp.length_sq(normal_out[i]) > 0.5):  # also NaN
            n = wp.vec3()
            if shape_type_in[shape0] == PLANE:
                n = wp.quat_rotate(wp.transform_get_rotation(shape_pose_in[shape0]), wp.vec3(0.0, 0.0, 1.0))
            elif shape_type_in[shape1] == PLANE:
                n = wp.quat_rotate(wp.transform_get_rotation(shape_pose_in[shape1]), wp.vec3(0.0, 0.0, -1.0))
            else:
                shape0_out[i] = -1
                shape1_out[i] = -1
            normal_out[i] = n
            offset0_out[i] = in_body_frame(margin0_in[i] * n, shape0, shape_body_in, body_q_in)
            offset1_out[i] = in_body_frame(-margin1_in[i] * n, shape1, shape_body_in, body_q_in)


def mend_contact_normals(pipeline: newton.CollisionPipeline, body_q: wp.array, contacts: newton.Contacts) -> None:
    """Mend what the last pass of ``pipeline`` wrote: one launch, no allocation."""
    model, device = pipeline.model, pipeline.device
    threads = 1 if device.is_cpu else min(contacts.rigid_contact_max, CUDA_THREADS)
    wp.launch(
        mend_normals,
        dim=threads,
        inputs=[
            body_q,
            model.shape_body,
            model.shape_type,
            pipeline.geom_transform,
            contacts.rigid_contact_count,
            contacts.rigid_contact_margin0,
            contacts.rigid_contact_margin1,
            threads,
        ],
        outputs=[
            contacts.rigid_contact_shape0,
            contacts.rigid_contact_shape1,
            contacts.rigid_contact_normal,
            contacts.rigid_contact_offset0,
            contacts.rigid_contact_offset1,
            contacts.rigid_contact_tids,
        ],
        device=device,
        record_tape=False,
    )
