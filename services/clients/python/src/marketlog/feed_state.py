"""
What a feed has brought so far, and what comes of its next event. Without I/O.

A reconnect sends the id of the last whole event, so the platform continues exactly behind it. A state that broke off begins again from its
start, which the reader learns by another FeedReady. A replay has no ids: the same range is replayed alike, so what was given before is skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from httpx_sse import ServerSentEvent
from typing_extensions import TypedDict

from .errors import FeedGap, MarketlogError, read_model
from .models import FeedChanged, FeedReady, FeedReplayEnd, FeedResync, FeedSalesRecorded, FeedSnapshotEnd

CHANGES: dict[str, type[FeedChanged] | type[FeedSalesRecorded]] = {
    "prices.changed": FeedChanged,
    "bids.changed": FeedChanged,
    "sales.recorded": FeedSalesRecorded,
}


class Filters(TypedDict, total=False):
    """Of several members, the changes that fit all; of items, those that an id or a name names."""

    providers: Sequence[str] | None
    item_ids: Sequence[int] | None
    market_hash_names: Sequence[str] | None


@dataclass
class FeedState:
    has_snapshot: bool = False
    is_replay: bool = False
    last_event_id: str | None = None
    is_over: bool = False
    reconnect_seconds: float = 0.0
    _is_complete: bool = False
    _ready: FeedReady | None = None
    _given: int = 0
    _to_skip: int = 0

    def connect(self) -> None:
        self._to_skip = self._given

    def apply(self, event: ServerSentEvent) -> Any:
        """The event for the reader, None where there is none for it."""
        if event.id:
            self.last_event_id = event.id
        if event.retry is not None:
            self.reconnect_seconds = event.retry / 1000
        if event.event in CHANGES:
            return self._changes(read_model(CHANGES[event.event], event.data))
        if event.event == "ready":
            self._ready = read_model(FeedReady, event.data)
            return self._ready if self.has_snapshot and not self._is_complete else None
        if event.event == "resync":
            return self._resync(read_model(FeedResync, event.data))
        if event.event == "snapshot.end":
            self._is_complete = True
            return read_model(FeedSnapshotEnd, event.data)
        if event.event == "replay.end":
            self._end(read_model(FeedReplayEnd, event.data))
        return None

    def _changes(self, changes: FeedChanged | FeedSalesRecorded) -> FeedChanged | FeedSalesRecorded | None:
        if not self.is_replay:
            return changes
        skipped = min(self._to_skip, len(changes.items))
        self._to_skip -= skipped
        self._given += len(changes.items) - skipped
        if skipped == len(changes.items):
            return None
        return changes.model_copy(update={"items": changes.items[skipped:]})

    def _resync(self, resync: FeedResync) -> FeedReady | None:
        if not self.has_snapshot:
            raise FeedGap(resync.reason)
        # The state that follows replaces all; one that was under way has announced itself by its ready.
        was_complete, self._is_complete = self._is_complete, False
        return self._ready if was_complete else None

    def _end(self, end: FeedReplayEnd) -> None:
        self.is_over = True
        if end.items != self._given:
            detail = (
                f"the replay gave {self._given} of {end.items} changes: the log was changed between two connections"
            )
            raise MarketlogError("REPLAY_CHANGED", detail)
