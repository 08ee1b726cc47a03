"""Terms of `Simulation.randomize`: distributions, and the numbers of a simulation that they are for.

Plain data without a simulation: a list of these can stand in a task, come from a file (`from_description`) and be kept
in a checkpoint (`to_description`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


class _Bounded:
    """A distribution of numbers from ``low`` to ``high``."""

    low: float
    high: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest number that can come."""
        return self.low, self.high


@dataclass(frozen=True)
class _Between(_Bounded):
    low: float
    high: float

    def __post_init__(self) -> None:
        _check_order(self, self.low, self.high)


@dataclass(frozen=True)
class Uniform(_Between):
    """Uniform distribution between ``low`` and ``high``."""

    name: ClassVar[str] = "uniform"


@dataclass(frozen=True)
class LogUniform(_Between):
    """Distribution between ``low`` and ``high`` with a uniform logarithm, for gains and stiffness."""

    name: ClassVar[str] = "log_uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low <= 0.0:
            raise ValueError(f"{self} needs positive numbers.")


@dataclass(frozen=True)
class Normal(_Bounded):
    """Normal distribution of a mean and a standard deviation, clamped to ``low`` and ``high``."""

    mean: float
    std: float
    low: float = -math.inf
    high: float = math.inf
    name: ClassVar[str] = "normal"

    def __post_init__(self) -> None:
        _check_numbers(self, self.mean, self.std)
        if not self.std >= 0.0 or not self.low <= self.high:
            raise ValueError(f"{self} needs a deviation that is not negative, and low <= high.")


@dataclass(frozen=True)
class Choice:
    """One of some values, with equal probability."""

    values: tuple[float, ...]
    name: ClassVar[str] = "choice"

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(float(value) for value in self.values))
        _check_numbers(self, *self.values)
        if not self.values:
            raise ValueError("Choice needs values.")

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest number that can come."""
        return min(self.values), max(self.values)


Distribution = Uniform | LogUniform | Normal | Choice
DISTRIBUTIONS: Mapping[str, type[Distribution]] = {kind.name: kind for kind in (Uniform, LogUniform, Normal, Choice)}


@dataclass(frozen=True)
class Every:
    """Repeated draws, for all worlds at the same time or for groups of them in turn."""

    seconds: float
    """Time between two draws of a world [s]; rounded to steps, with ``hold`` to a multiple of that, with ``phases`` to
    one of their number."""
    hold: float | None = None
    """Time for which a value stays before the nominal one returns [s]; None until the next draw."""
    probability: float = 1.0
    """Probability that a world takes part in a draw, independently of others."""
    phases: int = 1
    """Groups of worlds that take turns, spread over ``seconds``; world i is in group i modulo ``phases``. Steps stop
    as often."""

    def __post_init__(self) -> None:
        if isinstance(self.phases, bool) or not isinstance(self.phases, int) or self.phases < 1:
            raise ValueError(f"phases is {self.phases!r}; it must be a whole number of at least 1.")
        _check_numbers(self, self.seconds, self.probability, *(() if self.hold is None else (self.hold,)))
        if not self.seconds > 0.0 or not 0.0 < self.probability <= 1.0:
            raise ValueError(f"{self} needs positive seconds and a probability in (0, 1].")
        if self.hold is not None and not 0.0 < self.hold < self.seconds:
            raise ValueError(f"{self} needs a hold that is positive and shorter than seconds.")


HOW = ("set", "scale", "offset")
WHEN = ("start", "reset")


@dataclass(frozen=True)
class Randomize:
    """Draws of numbers of one view of a simulation, independent for each world."""

    what: str
    """Name of the view: a parameter (``"ground_mu"``, ``"body_mass"``, ...), ``"gravity"``, or of state and control
    ``"joint_q"``, ``"joint_qd"``, ``"body_f"``, ``"joint_f"``, ``"joint_target_q"`` and so on."""
    distribution: Distribution
    """Distribution of the value, the factor or the difference."""
    how: str = "set"
    """``"set"``; ``"scale"`` or ``"offset"`` of the nominal value, that of when `Simulation.randomize` was called; of
    joint_q and joint_qd it is the value that the world has."""
    names: str | tuple[str, ...] | None = None
    """Columns by name or pattern; None is all of them."""
    components: tuple[int, ...] | None = None
    """Components of entries with several numbers; None is all of them."""
    shared: bool = False
    """Whether all columns and components of a world get the same draw."""
    when: str | Every = "reset"
    """``"start"`` draws once, ``"reset"`` at once and whenever a world is reset, `Every` at times."""
    with_inertia: bool = True
    """Whether inertias follow masses in proportion; only for ``"body_mass"``."""

    def __post_init__(self) -> None:
        if not isinstance(self.what, str):
            raise TypeError(f"what is {self.what!r}; it must be the name of a view.")
        if not isinstance(self.distribution, tuple(DISTRIBUTIONS.values())):
            kinds = ", ".join(kind.__name__ for kind in DISTRIBUTIONS.values())
            raise TypeError(f"distribution is {self.distribution!r}; it must be one of {kinds}.")
        if self.how not in HOW:
            raise ValueError(f"how is {self.how!r}; valid choices are {', '.join(map(repr, HOW))}.")
        if not isinstance(self.when, Every) and self.when not in WHEN:
            raise ValueError(f"when is {self.when!r}; it must be {', '.join(map(repr, WHEN))} or an Every.")
        for name in ("names", "components"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, (str, tuple)):
                object.__setattr__(self, name, tuple(value))


def from_description(items: Iterable[Mapping[str, Any]]) -> list[Randomize]:
    """Terms from what a file says, one mapping each: the fields of `Randomize`, with the distribution by its name.

    ```yaml
    randomize:
      - {what: ground_mu, uniform: [0.4, 1.2]}
      - {what: body_mass, names: torso, how: scale, uniform: [0.8, 1.2]}
      - {what: joint_qd, names: root.v*, how: offset, normal: [0.0, 0.3], when: {seconds: 4.0}}
    ```

    Raises:
        ValueError: Something is unknown or missing; the message says what, and in which item.
    """
    return [_read(item, f"randomize[{i}]") for i, item in enumerate(items)]


def _read(item: Mapping[str, Any], path: str) -> Randomize:
    if not isinstance(item, Mapping):
        raise ValueError(f"{path} is {item!r}; it must be a mapping.")
    given = dict(item)
    kinds = [name for name in DISTRIBUTIONS if name in given]
    if len(kinds) != 1:
        raise ValueError(f"{path} has {kinds or 'no distribution'}; it needs one of {', '.join(DISTRIBUTIONS)}.")
    numbers = given.pop(kinds[0])
    try:
        kind = DISTRIBUTIONS[kinds[0]]
        if isinstance(numbers, Mapping):
            distribution: Any = kind(**numbers)
        else:
            distribution = Choice(tuple(numbers)) if kind is Choice else kind(*numbers)
        if isinstance(given.get("when"), Mapping):
            given["when"] = Every(**given["when"])
        return Randomize(distribution=distribution, **given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def to_description(terms: Sequence[Randomize]) -> list[dict[str, Any]]:
    """What `from_description` makes the same terms of; only what JSON can hold."""
    described = []
    for term in terms:
        values = {name: list(value) if isinstance(value, tuple) else value for name, value in _fields(term).items()}
        kind = term.distribution
        numbers = {name: value for name, value in asdict(kind).items() if value not in (math.inf, -math.inf)}
        values[kind.name] = {name: list(v) if isinstance(v, tuple) else v for name, v in numbers.items()}
        if isinstance(term.when, Every):
            values["when"] = asdict(term.when)
        described.append(values)
    return described


def _fields(term: Randomize) -> dict[str, Any]:
    names = ("what", "how", "names", "components", "shared", "when", "with_inertia")
    return {name: getattr(term, name) for name in names}


def _check_numbers(owner: Any, *values: Any) -> None:
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(f"{type(owner).__name__} has {value!r}, which is no finite number.")


def _check_order(owner: Any, low: Any, high: Any) -> None:
    _check_numbers(owner, low, high)
    if low > high:
        raise ValueError(f"{owner} needs low <= high.")
