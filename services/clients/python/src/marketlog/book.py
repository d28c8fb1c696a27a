"""
The current rows of a market side, folded from a feed that begins with the state. Without I/O.

A state is collected aside and replaces the rows when it is complete, so a reader never sees a part of it. The rows of an item are replaced as a
whole, which lets one thread read while another applies.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from .models import FeedChanged, FeedReady, FeedSnapshotEnd

Side = Literal["ask", "bid"]


@dataclass(frozen=True)
class Quote:
    """A price of a provider, in hundredths of a US dollar, and how many units it is for."""

    provider: str
    item_id: int
    market_hash_name: str
    phase: str | None
    price: int
    quantity: int
    seen_at: datetime


class Rows:
    def __init__(self) -> None:
        self.by_item: dict[int, dict[str, Quote]] = {}
        self.items_of_name: dict[str, tuple[int, ...]] = {}

    def apply(self, changed: FeedChanged) -> None:
        for item in changed.items:
            quotes = {**self.by_item.get(item.item_id, {})}
            if item.price is None:
                quotes.pop(changed.provider, None)
            else:
                quotes[changed.provider] = Quote(
                    provider=changed.provider,
                    item_id=item.item_id,
                    market_hash_name=item.market_hash_name,
                    phase=item.phase,
                    price=item.price,
                    quantity=item.qty,
                    seen_at=changed.seen_at,
                )
            ids = self.items_of_name.get(item.market_hash_name, ())
            if item.item_id not in ids:
                self.items_of_name[item.market_hash_name] = (*ids, item.item_id)
            self.by_item[item.item_id] = quotes


class Book:
    def __init__(self, side: Side) -> None:
        self.side = side
        self.is_complete = False
        self.seen_at: datetime | None = None
        self._rows = Rows()
        self._state: Rows | None = None

    def apply(self, event: FeedReady | FeedChanged | FeedSnapshotEnd) -> None:
        if isinstance(event, FeedReady):
            self._state = Rows()
        elif isinstance(event, FeedSnapshotEnd):
            self._rows, self._state = self._state or self._rows, None
            self.is_complete = True
        else:
            (self._state or self._rows).apply(event)
            self.seen_at = max(self.seen_at or event.seen_at, event.seen_at)

    def quotes(self, item: int | str) -> list[Quote]:
        """Of an id, or of a name over all of its phases: best first, equal ones by provider."""
        rows = self._rows
        ids = (item,) if isinstance(item, int) else rows.items_of_name.get(item, ())
        found = [quote for one in ids for quote in rows.by_item.get(one, {}).values()]
        sign = 1 if self.side == "ask" else -1
        return sorted(found, key=lambda quote: (sign * quote.price, quote.provider, quote.item_id))

    def all_quotes(self) -> list[Quote]:
        return [quote for quotes in list(self._rows.by_item.values()) for quote in quotes.values()]
