import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from conftest import ScriptedPlatform, answered, streamed

from marketlog import AsyncMarketlog, FeedGap, Marketlog, MarketlogError
from marketlog.models import FeedReady, FeedSnapshotEnd

KEY = "sk_live_root_of_a_test"
SEEN_AT = "2026-03-03T00:00:00.000Z"
ENDED = answered(401, '{"code":"AUTH_API_KEY_REVOKED","detail":"revoked"}')


def event(name: str, data: Any, id: str = "") -> str:
    lines = [f"event: {name}", *([f"id: {id}"] if id else []), f"data: {json.dumps(data)}"]
    return "\n".join(lines) + "\n\n"


def ready(id: str = "") -> str:
    return event("ready", {"providers": [], "item_ids_filter_count": 0, "market_hash_names_filter_count": 0}, id)


def changed(*item_ids: int, id: str = "", price: int | None = 100) -> str:
    items = [
        {
            **{"item_id": item_id, "market_hash_name": f"Item {item_id}", "phase": None, "price": price},
            **{"qty": 1, "change": "updated"},
        }
        for item_id in item_ids
    ]
    return event("prices.changed", {"provider": "provider_01", "seen_at": SEEN_AT, "items": items}, id)


def ids_of(changes: Any) -> list[int]:
    return [item.item_id for item in changes.items]


def test_comes_back_behind_the_last_whole_event(platform: ScriptedPlatform) -> None:
    cut_off = changed(3, id="c").rstrip("\n")
    platform.answers = [
        streamed(ready("a"), changed(1, id="b"), cut_off),
        streamed(ready("b"), changed(3, id="c")),
        ENDED,
    ]
    with Marketlog(platform.url, KEY) as market, market.feed.prices() as feed:
        assert [ids_of(next(feed)), ids_of(next(feed))] == [[1], [3]]
        assert feed.last_event_id == "c"
        with pytest.raises(MarketlogError, match="AUTH_API_KEY_REVOKED"):
            next(feed)
    assert [request.headers["last-event-id"] for request in platform.requests] == [None, "b", "c"]
    assert "resume=true" in platform.requests[0].path


def test_believes_silence_only_for_so_long(platform: ScriptedPlatform) -> None:
    def send_late(request: BaseHTTPRequestHandler) -> None:
        streamed(ready("a"), then=lambda: platform.is_over.wait(5))(request)
        with contextlib.suppress(OSError):
            request.wfile.write(changed(99, id="z").encode())

    platform.answers = [send_late, streamed(ready("a"), changed(1, id="b"))]
    with Marketlog(platform.url, KEY, silence_seconds=0.2) as market, market.feed.prices() as feed:
        assert ids_of(next(feed)) == [1]


def test_raises_a_gap_and_goes_on_live(platform: ScriptedPlatform) -> None:
    gap = event("resync", {"reason": "expired"}, "b")
    platform.answers = [streamed(ready("b"), gap, changed(7, id="c"))]
    with Marketlog(platform.url, KEY) as market, market.feed.prices(last_event_id="old") as feed:
        with pytest.raises(FeedGap) as raised:
            next(feed)
        assert raised.value.reason == "expired"
        assert ids_of(next(feed)) == [7]
    assert len(platform.requests) == 1


def test_begins_a_state_that_broke_off_again(platform: ScriptedPlatform) -> None:
    end = event("snapshot.end", {"items": 2}, "c")
    platform.answers = [
        streamed(ready("s1"), changed(1)),
        streamed(ready("s2"), changed(1, 2), end, changed(3, id="d")),
        streamed(ready("d"), changed(4, id="e")),
        streamed(ready("s3"), event("resync", {"reason": "unknown"}), changed(5), end),
    ]
    with Marketlog(platform.url, KEY) as market, market.feed.prices(snapshot=True) as feed:
        kinds = [next(feed) for _ in range(10)]
    is_ready = [isinstance(one, FeedReady) for one in kinds]
    is_end = [isinstance(one, FeedSnapshotEnd) for one in kinds]
    assert [at for at, one in enumerate(is_ready) if one] == [0, 2, 7]
    assert [at for at, one in enumerate(is_end) if one] == [4, 9]


def test_replays_on_over_a_break_without_a_repeat(platform: ScriptedPlatform) -> None:
    end = event("replay.end", {"items": 4})
    platform.answers = [
        streamed(ready(), changed(1, 2), changed(3)[:-9]),
        streamed(ready(), changed(1), changed(2, 3), changed(4), end),
    ]
    with Marketlog(platform.url, KEY) as market:
        replay = market.feed.replay_prices(from_="2026-03-03", speed=0)
        assert [ids_of(changes) for changes in replay] == [[1, 2], [3], [4]]
    assert "from=2026-03-03&speed=0" in platform.requests[0].path


def test_raises_where_the_replayed_log_has_changed(platform: ScriptedPlatform) -> None:
    platform.answers = [streamed(ready(), changed(1), event("replay.end", {"items": 2}))]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError, match="REPLAY_CHANGED"):
        list(market.feed.replay_prices(from_="2026-03-03", speed=0))


STATE_END = event("snapshot.end", {"items": 1}, "b")


def test_opens_a_book_with_its_state_and_closes_it_while_it_waits(platform: ScriptedPlatform) -> None:
    platform.answers = [streamed(ready("s"), changed(1, price=250), STATE_END, then=platform.is_over.wait)]
    with Marketlog(platform.url, KEY) as market, market.live_book() as book:
        best = book.best("Item 1")
        assert best is not None
        assert (best.price, best.provider, book.is_live, book.best(2)) == (250, "provider_01", True, None)
    assert "marketlog live book" not in {thread.name for thread in threading.enumerate()}


def test_raises_in_a_book_what_ended_its_feed(platform: ScriptedPlatform) -> None:
    platform.answers = [ENDED]
    with (
        Marketlog(platform.url, KEY) as market,
        pytest.raises(MarketlogError, match="AUTH_API_KEY_REVOKED"),
        market.live_book(),
    ):
        pass


async def test_does_the_same_in_an_event_loop(platform: ScriptedPlatform) -> None:
    platform.answers = [
        streamed(ready("s"), changed(1, price=250), STATE_END, then=platform.is_over.wait),
        streamed(ready("a"), changed(2, id="b")),
    ]
    async with AsyncMarketlog(platform.url, KEY) as market:
        async with market.live_book() as book:
            best = book.best(1)
            assert best is not None
            assert best.price == 250
        async for changes in market.feed.prices():
            assert ids_of(changes) == [2]
            break
