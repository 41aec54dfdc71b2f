"""The rule that ends a run once it has seen enough, and the shares that the rule watches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from bias_core.study.types import StudySettings
    from bias_core.types import Estimate, ReaderErrors


FEWEST = 8  # pictures of a share before a rule may end a run


@dataclass(frozen=True, kw_only=True)
class ShareValues:
    """Values of some pictures for one share."""

    name: str  # as the report calls it
    image_ids: tuple[str, ...]
    values: np.ndarray  # ``(n,)`` in [0, 1]: 1 if the picture shows it, or the share of its people; nan: unknown
    reference: float | None = None  # P*, the rate to compare with
    errors: ReaderErrors | None = None  # of the classifier, if the report corrects the share for them
    hidden_at_zero: bool = False  # left out while no picture shows it
    is_score: bool = False  # True if it is shown as a mean of +1 and −1 with null value 0


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """Ends a run once every share is known closely, or differs clearly from its P*."""

    within: float | None
    when_clear: bool
    confidence: float

    @property
    def words(self) -> str:
        """The rule in words.

        >>> StopRule(within=0.1, when_clear=True, confidence=0.95).words
        'every interval is at most 20 points wide (±10), or its share differs clearly from P*'
        """
        if self.within is None:
            return "every share differs clearly from P*"
        width = f"every interval is at most {200 * self.within:g} points wide (±{100 * self.within:g})"
        return f"{width}, or its share differs clearly from P*" if self.when_clear else width

    def holds(self, shares: Sequence[Estimate]) -> bool:
        """Return True if the run has seen enough; if only P* counts, shares without one are ignored.

        Where P* counts, the claims on all shares must be clear, as in headlines.
        """
        from bias_core.report.claims import decide_claims

        waited_for = [self.within is not None or share.null_value is not None for share in shares]
        claims = decide_claims(shares, confidence=self.confidence)
        conditions_met = [
            share.n >= FEWEST
            and (
                (self.when_clear and claim.is_clear)
                or (self.within is not None and (share.high - share.low) / 2 <= self.within)
            )
            for share, claim in zip(shares, claims, strict=True)
        ]
        return any(waited_for) and all(compress(conditions_met, waited_for))


def stop_rule(settings: StudySettings) -> StopRule | None:
    """Return the rule in the settings; None if the number of pictures is fixed."""
    if not settings.may_stop_early:
        return None
    return StopRule(within=settings.stop_within, when_clear=settings.stop_when_clear, confidence=settings.confidence)
