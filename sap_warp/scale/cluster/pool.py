"""Pool of workers that each hold a part of something: started warm, called all at once, replaced when lost.

A worker is an actor of Ray with a subject, an object of the caller's class. `Pool.call` calls a method of all subjects.
What happens when one does not answer:

- Its process is gone (killed, out of memory, its node left): another is started where there is room, `restore` brings
  its subject to where it was, and the call is repeated. If this happens again and again, `ClusterError` says why.
- It does not answer in time: it is stopped, and `ClusterError` says which one.
- The method raises: the same exception is raised here.

After an exception the subjects are at different points. The next call that may mend this, such as a reset, passes
``mend=True``; others are refused.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .connection import Connection, require_ray
from .workers import ClusterError, WorkerSetup, machine_id, prepare_worker, worker_environment, worker_setup


class Place(NamedTuple):
    """Where a worker runs."""

    machine: str
    """Identifier of the machine, see `machine_id`."""
    host: str
    node: str
    """Name of the node in Ray."""
    process: int
    gpus: str
    """CUDA_VISIBLE_DEVICES of the process."""

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class Host:
    """Object in a worker's process: holds the subject and its warnings."""

    def __init__(self) -> None:
        self._subject: Any = None
        self._notes: list[str] = []

    def prepare(self, setup: WorkerSetup) -> Place:
        """Describe the process, and use the driver's kernel cache if it is on this machine."""
        prepare_worker(setup)
        warnings.showwarning = self._keep  # type: ignore[assignment]  # nobody reads what a worker prints
        node = require_ray().get_runtime_context().get_node_id()
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return Place(machine_id(), socket.gethostname(), node, os.getpid(), gpus)

    def build(self, setup: WorkerSetup, kernels: np.ndarray | None, make: Callable[..., Any], *given: Any) -> list[str]:
        """Make the subject."""
        prepare_worker(setup, kernels)
        self._subject = make(*given)
        return self._take_notes()

    def pack(self) -> np.ndarray:
        """Return the kernels that the subject has loaded."""
        from .kernels import pack_kernels

        return pack_kernels()

    def processor_seconds(self) -> float:
        """Return the processor time that the process has used so far, all threads [s]."""
        return time.process_time()

    def call(self, method: str, *given: Any) -> tuple[Any, list[str]]:
        """Return the result of a method of the subject, and its warnings."""
        return getattr(self._subject, method)(*given), self._take_notes()

    def _keep(self, message: Any, *details: Any) -> None:
        self._notes.append(str(message))

    def _take_notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes


@dataclass
class Member:
    """A worker from the driver's point of view."""

    number: int
    given: tuple[Any, ...]
    """Argument that its subject is made of."""
    text: str
    """Description for messages."""
    actor: Any = None
    place: Place | None = None
    built: bool = False

    def __str__(self) -> str:
        return f"Worker {self.number} ({self.text}{f', {self.place}' if self.place else ''})"


class Pool:
    """Workers with one subject each."""

    def __init__(
        self,
        connection: Connection,
        make: Callable[..., Any],
        given: Sequence[tuple[Any, ...]],
        texts: Sequence[str],
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        timeout: float = 60.0,
        start_timeout: float = 600.0,
        restarts: int = 3,
        restore: Callable[[int], None] | None = None,
    ):
        """Start a worker for each entry of ``given``; the first compiles kernels, and the others take them over.

        Args:
            connection: The Ray.
            make: Class or function that makes a subject; workers have to be able to import it.
            given: Its arguments for each worker.
            texts: What each worker holds, for messages.
            cpus: Processors that Ray reserves for each.
            gpus: GPUs for each; it sees no others.
            timeout: For a call [s].
            start_timeout: For the start of a worker, compiling included [s].
            restarts: How often in a row a worker may be lost within one call.
            restore: Called with the number of a worker whose subject was made anew, to bring it to where it was,
                by means of `ask`.
        """
        self.connection, self._make, self._restore = connection, make, restore
        self._timeout, self._start_timeout, self._restarts = timeout, start_timeout, restarts
        self._ray, self._setup = require_ray(), worker_setup()
        self._actor_class = self._ray.remote(Host)
        self._options = {
            "num_cpus": cpus,
            "num_gpus": gpus,
            "max_restarts": 0,
            "scheduling_strategy": "SPREAD",
            "runtime_env": worker_environment(),
        }
        connection.require(len(given), cpus, gpus)
        self.members = [Member(i, one, text) for i, (one, text) in enumerate(zip(given, texts, strict=True))]
        self.lost = 0
        """Workers that were replaced so far."""
        self.torn = ""
        """Why subjects may be at different points; empty if they are not."""
        self._start()

    @property
    def places(self) -> list[Place]:
        """Return where the workers run."""
        return [member.place for member in self.members if member.place]

    @property
    def processor_seconds(self) -> list[float]:
        """Return the processor time that the process of each worker has used so far [s]."""
        found: list[float] = self._ray.get([member.actor.processor_seconds.remote() for member in self.members])
        return found

    def call(self, method: str, given: Sequence[tuple[Any, ...]], *, mend: bool = False) -> list[Any]:
        """Return the results of a method of all subjects, with arguments for each.

        Args:
            method: Its name.
            given: Arguments for each worker.
            mend: Whether it brings the subjects together again after a failure.

        Raises:
            ClusterError: A worker hangs or cannot be kept alive, or a call failed before and ``mend`` is not set.
            Exception: What the method raised.
        """
        if self.torn and not mend:
            raise ClusterError(f"{self.torn} Worlds are at different points now; reset all of them to go on.")
        self.torn = f"A call of {method} was interrupted."
        try:
            for member in self.members:
                if not member.built:
                    self._replace(member)
            answers = [m.actor.call.remote(method, *own) for m, own in zip(self.members, given, strict=True)]
            self._wait(self.members, answers, self._timeout)
            results = [
                self._take(member, answer, method, own)
                for member, answer, own in zip(self.members, answers, given, strict=True)
            ]
        except Exception as error:
            self.torn = f"A call of {method} failed: {error}"
            raise
        self.torn = ""
        return results

    def ask(self, number: int, method: str, *given: Any) -> Any:
        """Return the result of a method of one subject, for `restore`; it is not repeated if the worker is lost."""
        member = self.members[number]
        answer = member.actor.call.remote(method, *given)
        self._wait([member], [answer], self._start_timeout)
        try:
            return self._unpack(member, self._ray.get(answer))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None

    def close(self) -> None:
        """Stop the workers, and close the connection to Ray."""
        for member in self.members:
            self._stop(member)
        self.connection.close()

    # Beginning and replacing.

    def _start(self) -> None:
        """Start all processes at once, then let the first one make its subject, then the others."""
        try:
            for member in self.members:
                self._begin(member)
            for member in self.members:
                self._settle(member)
            first, others = self.members[0], self.members[1:]
            self._build(first, None)
            far = [member for member in others if not self._is_beside(member, first)]
            kernels = first.actor.pack.remote() if far else None
            waiting = [self._ask_to_build(member, kernels if member in far else None) for member in others]
            for member, answer in zip(others, waiting, strict=True):
                self._finish_build(member, answer)
        except BaseException:
            self.close()
            raise

    def _begin(self, member: Member) -> None:
        member.built, member.place = False, None
        member.actor = self._actor_class.options(**self._options).remote()

    def _settle(self, member: Member) -> None:
        """Wait until the process of a worker runs, and learn where."""
        answer = member.actor.prepare.remote(self._setup)
        if not self._ray.wait([answer], timeout=self._start_timeout)[0]:
            self._stop(member)
            raise ClusterError(
                f"{member} could not be started within {self._start_timeout:g} s. Ray has no room for it: it needs "
                f"{self._options['num_cpus']:g} CPUs and {self._options['num_gpus']:g} GPUs on one node "
                "(see `ray status`)."
            )
        member.place = self._ray.get(answer)

    def _build(self, member: Member, kernels: Any) -> None:
        self._finish_build(member, self._ask_to_build(member, kernels))

    def _ask_to_build(self, member: Member, kernels: Any) -> Any:
        return member.actor.build.remote(self._setup, kernels, self._make, *member.given)

    def _finish_build(self, member: Member, answer: Any) -> None:
        self._wait([member], [answer], self._start_timeout)
        try:
            self._say(member, self._ray.get(answer))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        member.built = True

    def _is_beside(self, one: Member, other: Member) -> bool:
        return bool(one.place and other.place and one.place.machine == other.place.machine)

    def _replace(self, member: Member, reason: str = "") -> None:
        """Start a worker again and bring its subject to where it was, as often as is allowed."""
        for attempt in range(self._restarts):
            self._stop(member)
            self.lost += 1
            try:
                self._begin(member)
                self._settle(member)
                healthy = [other for other in self.members if other.built and other is not member]
                beside = any(self._is_beside(member, other) for other in healthy)
                self._build(member, None if beside or not healthy else healthy[0].actor.pack.remote())
                if self._restore:
                    self._restore(member.number)
                return
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                reason = str(error)
        raise ClusterError(f"{member} was lost {self._restarts} times in a row. The last reason: {reason}")

    def _stop(self, member: Member) -> None:
        if member.actor is not None:
            with contextlib.suppress(Exception):  # it may be gone already
                self._ray.kill(member.actor)
        member.actor, member.built = None, False

    # Answers.

    def _wait(self, members: Sequence[Member], answers: Sequence[Any], timeout: float) -> None:
        """Wait for all answers.

        Raises:
            ClusterError: Some did not come; their workers are stopped.
        """
        _, missing = self._ray.wait(list(answers), num_returns=len(answers), timeout=timeout, fetch_local=False)
        if not missing:
            return
        hanging = [member for member, answer in zip(members, answers, strict=True) if answer in missing]
        names = "; ".join(map(str, hanging))
        for member in hanging:
            self._stop(member)
        raise ClusterError(
            f"No answer within {timeout:g} s, so this was stopped: {names}. It is started again when the work begins "
            "anew, in an environment by a reset of all worlds. If it may take so long, give a larger timeout."
        )

    def _take(self, member: Member, answer: Any, method: str, given: tuple[Any, ...]) -> Any:
        """Return an answer, that of the successor if the worker was lost."""
        for attempt in range(self._restarts + 1):
            try:
                return self._unpack(member, self._ray.get(answer))
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                if attempt == self._restarts:
                    self._stop(member)
                    text = f"{member} was lost {attempt + 1} times in a row. The last reason: {error}"
                    raise ClusterError(text) from None
                self._replace(member, str(error))
                answer = member.actor.call.remote(method, *given)
                self._wait([member], [answer], self._timeout)
        raise AssertionError("unreachable")

    def _unpack(self, member: Member, answer: tuple[Any, list[str]]) -> Any:
        result, notes = answer
        self._say(member, notes)
        return result

    def _say(self, member: Member, notes: Sequence[str]) -> None:
        for text in notes:
            warnings.warn(f"{member}: {text}", RuntimeWarning, stacklevel=_outside())


def _outside() -> int:
    """Return how many stack levels up the caller outside of this package is, for warnings."""
    package, level = __name__.partition(".")[0], 1
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def even_shares(total: int, parts: int) -> list[tuple[int, int]]:
    """Return first and count of each part of ``total`` things, as even as possible."""
    bounds = np.linspace(0, total, parts + 1).round().astype(int).tolist()
    return [(first, last - first) for first, last in pairwise(bounds)]
