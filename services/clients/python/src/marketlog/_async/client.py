"""The client: a method per operation, feeds, and the book that follows them."""

from typing_extensions import Unpack

from ..book import Book, Side
from ..feed_state import Filters
from .feeds import AsyncFeeds
from .live_book import AsyncLiveBook
from .operations import AsyncOperations


class AsyncMarketlog(AsyncOperations):
    """A client of a platform."""

    @property
    def feed(self) -> AsyncFeeds:
        return AsyncFeeds(self)

    def live_book(self, *, side: Side = "ask", **filters: Unpack[Filters]) -> AsyncLiveBook:
        """The current asks or bids of the items and providers that the filters name, or of all."""
        feed = self.feed.prices if side == "ask" else self.feed.bids
        return AsyncLiveBook(feed(snapshot=True, **filters), Book(side))
