"""Live feeds and replays."""

import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from datetime import date, datetime
from types import TracebackType
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import httpx
from httpx_sse import EventSource, ServerSentEvent
from typing_extensions import Self, Unpack

from ..concurrency import AsyncFlag
from ..errors import CONNECTION_FAILED, MarketlogError, transport_error
from ..feed_state import FeedState, Filters
from ..models import FeedChanged, FeedReady, FeedSalesRecorded, FeedSnapshotEnd
from ..requests import present
from ..retries import Attempts
from .caller import AsyncCaller

Event = TypeVar("Event")
Moment: TypeAlias = str | date | datetime
WithState: TypeAlias = FeedReady | FeedChanged | FeedSnapshotEnd


class AsyncFeed(Generic[Event]):
    """
    The events of a feed, read as they are asked for.

    A connection that breaks, or that is silent for longer than the client allows, is made again behind the last event. What cannot get
    better (a key that has ended, a parameter that is refused) is raised, and so is a FeedGap, after which the feed may be iterated further.
    """

    def __init__(self, caller: AsyncCaller, path: str, query: Mapping[str, Any], state: FeedState) -> None:
        self.is_live = False
        self._caller = caller
        self._path = path
        self._query = query
        self._state = state
        self._attempts = Attempts(caller._limits, is_safe=True, is_feed=True)
        self._closed = AsyncFlag()
        self._response: httpx.Response | None = None
        self._events: AsyncIterator[ServerSentEvent] | None = None

    @property
    def last_event_id(self) -> str | None:
        """The position behind the last event: kept, it lets another process begin there."""
        return self._state.last_event_id

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._closed.is_set():
            try:
                event = await self._receive()
            except MarketlogError as error:
                await self._disconnect()
                delay = self._attempts.delay(error, self._state.reconnect_seconds)
                await self._closed.wait(delay)
                continue
            given: Event | None = self._state.apply(event)
            if event.event != "ready":
                self._attempts.succeed()
            if self._state.is_over:
                await self.close()
            elif given is not None:
                return given
        raise StopAsyncIteration

    async def close(self) -> None:
        self._closed.set()
        await self._disconnect()

    def interrupt(self) -> None:
        """Ends the feed from another thread than that which reads it, at once."""
        self._closed.set()
        if self._response is not None:
            connection = self._response.extensions["network_stream"].get_extra_info("socket")
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _receive(self) -> ServerSentEvent:
        events = self._events or await self._connect()
        try:
            return await anext(events)
        except StopAsyncIteration:
            raise MarketlogError(CONNECTION_FAILED, "the stream ended") from None
        except httpx.HTTPError as cause:
            raise transport_error(cause) from cause

    async def _connect(self) -> AsyncIterator[ServerSentEvent]:
        position = self._state.last_event_id
        headers = {"accept": "text/event-stream", **({"last-event-id": position} if position else {})}
        self._response, _ = await self._caller._attempt(
            "GET",
            self._path,
            query=self._query,
            headers=headers,
            is_stream=True,
            silence_seconds=self._caller._silence_seconds,
        )
        self._state.connect()
        self._attempts.limits = self._caller._feed_limits
        self._events = EventSource(self._response).aiter_sse()
        self.is_live = True
        return self._events

    async def _disconnect(self) -> None:
        self.is_live = False
        response, self._response, self._events = self._response, None, None
        if response is not None:
            await response.aclose()


class AsyncFeeds:
    """
    The feeds of a client.

    Filters are `providers`, `item_ids` and `market_hash_names`, the latter two up to 100 together. `last_event_id` begins where another feed was.
    With `snapshot` the current state comes first: FeedReady where it begins, its rows as `added`, and FeedSnapshotEnd. A FeedReady that comes
    later begins a state that replaces all before it.
    """

    def __init__(self, caller: AsyncCaller) -> None:
        self._caller = caller

    @overload
    def prices(
        self, *, snapshot: Literal[False] = False, last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[FeedChanged]: ...
    @overload
    def prices(
        self, *, snapshot: Literal[True], last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[WithState]: ...
    def prices(
        self, *, snapshot: bool = False, last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[Any]:
        """Changes of asks as they happen."""
        return self._live("prices", filters, last_event_id, snapshot)

    @overload
    def bids(
        self, *, snapshot: Literal[False] = False, last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[FeedChanged]: ...
    @overload
    def bids(
        self, *, snapshot: Literal[True], last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[WithState]: ...
    def bids(
        self, *, snapshot: bool = False, last_event_id: str | None = None, **filters: Unpack[Filters]
    ) -> AsyncFeed[Any]:
        """Changes of buy orders as they happen."""
        return self._live("bids", filters, last_event_id, snapshot)

    def sales(self, *, last_event_id: str | None = None, **filters: Unpack[Filters]) -> AsyncFeed[FeedSalesRecorded]:
        """Sales as they are recorded."""
        return self._live("sales", filters, last_event_id, False)

    def replay_prices(
        self, *, from_: Moment, to: Moment | None = None, speed: float = 1, **filters: Unpack[Filters]
    ) -> AsyncFeed[FeedChanged]:
        """
        Recorded changes of asks in the order of recording, at so many times their pace; 0 is as fast as they are read.

        A replay that breaks begins again, at its pace, and skips what it gave.
        """
        return self._replay("prices", from_, to, speed, filters)

    def replay_bids(
        self, *, from_: Moment, to: Moment | None = None, speed: float = 1, **filters: Unpack[Filters]
    ) -> AsyncFeed[FeedChanged]:
        """Recorded changes of buy orders, as those of asks."""
        return self._replay("bids", from_, to, speed, filters)

    def replay_sales(
        self, *, from_: Moment, to: Moment | None = None, speed: float = 1, **filters: Unpack[Filters]
    ) -> AsyncFeed[FeedSalesRecorded]:
        """Recorded sales, as changes of asks."""
        return self._replay("sales", from_, to, speed, filters)

    def _live(self, what: str, filters: Filters, last_event_id: str | None, has_snapshot: bool) -> AsyncFeed[Any]:
        query = present({**filters, "resume": True, "snapshot": has_snapshot or None})
        state = FeedState(has_snapshot=has_snapshot, last_event_id=last_event_id)
        return AsyncFeed(self._caller, f"/v1/feed/{what}", query, state)

    def _replay(self, what: str, from_: Moment, to: Moment | None, speed: float, filters: Filters) -> AsyncFeed[Any]:
        query = present({**filters, "from": from_, "to": to, "speed": f"{speed:g}"})
        return AsyncFeed(self._caller, f"/v1/feed/replay/{what}", query, FeedState(is_replay=True))
