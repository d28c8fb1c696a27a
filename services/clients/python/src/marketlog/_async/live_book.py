"""A book that follows its feed beside the program that reads it."""

from types import TracebackType

from typing_extensions import Self

from ..book import Book, Quote
from ..concurrency import AsyncBackground, AsyncFlag
from .feeds import AsyncFeed, WithState


class AsyncLiveBook:
    """
    The rows of asks or bids: the state, then every change, also over breaks of the connection. Use it in a `with`.

    It opens when the state is there. While its connection is away (`is_live` is False) it shows what it last had; once its feed
    has failed for good, every question raises the error.
    """

    def __init__(self, feed: AsyncFeed[WithState], book: Book) -> None:
        self._feed = feed
        self._book = book
        self._background = AsyncBackground()
        self._begun = AsyncFlag()
        self._error: Exception | None = None

    @property
    def is_live(self) -> bool:
        return self._feed.is_live

    def best(self, item: int | str) -> Quote | None:
        """The lowest ask or the highest bid of an item id, or of a name over all of its phases; None where nothing is listed."""
        return next(iter(self.quotes(item)), None)

    def quotes(self, item: int | str) -> list[Quote]:
        """One per provider and phase, the best first."""
        return self._checked().quotes(item)

    def all_quotes(self) -> list[Quote]:
        """Every row of the book, in no order."""
        return self._checked().all_quotes()

    async def __aenter__(self) -> Self:
        await self._background.start(self._follow)
        try:
            await self._begun.wait()
            self._checked()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._background.stop(self._feed.interrupt)
        await self._feed.close()

    async def _follow(self) -> None:
        try:
            async for event in self._feed:
                self._book.apply(event)
                if self._book.is_complete:
                    self._begun.set()
        except Exception as error:
            # Raised where the book is asked.
            self._error = error
        finally:
            self._begun.set()

    def _checked(self) -> Book:
        if self._error is not None:
            raise self._error
        return self._book
