"""
When a call or a feed is tried again.

A 409, 429 or 503 with Retry-After is a refusal that had no effect, so any call waits as it says. What got no answer is sent again where it is
safe: a GET. Every wait is bounded by a count and by the time since the first failure; an error that waiting does not cure is raised.
"""

import random
import time
from dataclasses import dataclass

from .errors import MarketlogError

REFUSALS = {409, 429, 503}
PASSING_STATUSES = {408, 429, 500, 502, 503, 504}
FIRST_SECONDS = 0.25
LONGEST_SECONDS = 15.0


@dataclass(frozen=True)
class RetryLimits:
    count: int
    seconds: float


class Attempts:
    """The failures of one call, or of a feed since it last brought something."""

    def __init__(self, limits: RetryLimits, *, is_safe: bool, is_feed: bool = False) -> None:
        self.limits = limits
        self._is_safe = is_safe
        self._is_feed = is_feed
        self._failures = 0
        self._first_at = 0.0

    def succeed(self) -> None:
        self._failures = 0

    def delay(self, error: MarketlogError, least: float = 0.0) -> float:
        """Seconds to wait before the next attempt; raises the error where there is none."""
        now = time.monotonic()
        if self._failures == 0:
            self._first_at = now
        self._failures += 1
        delay = max(least, self._delay(error))
        is_over = self._failures > self.limits.count or now - self._first_at + delay > self.limits.seconds
        if is_over or not self._is_passing(error):
            raise error
        return delay

    def _is_passing(self, error: MarketlogError) -> bool:
        if error.status in REFUSALS and error.retry_after is not None:
            return True
        if self._is_feed:
            return error.status is None or error.status in PASSING_STATUSES
        return self._is_safe and error.status in (None, 502, 503, 504)

    def _delay(self, error: MarketlogError) -> float:
        if error.retry_after is not None:
            return error.retry_after
        longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 10))
        return random.uniform(longest / 2, longest)
