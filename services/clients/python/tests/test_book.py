from datetime import datetime, timezone

from marketlog.book import Book
from marketlog.models import FeedChanged, FeedItem, FeedReady, FeedSnapshotEnd

READY = FeedReady(providers=[], item_ids_filter_count=0, market_hash_names_filter_count=0)
END = FeedSnapshotEnd(items=0)
MOMENT = datetime(2026, 3, 3, tzinfo=timezone.utc)


def changed(
    provider: str, item_id: int, price: int | None, name: str = "Item", phase: str | None = None
) -> FeedChanged:
    change = "removed" if price is None else "updated"
    item = FeedItem(item_id=item_id, market_hash_name=name, phase=phase, price=price, qty=1, change=change)
    return FeedChanged(provider=provider, seen_at=MOMENT, items=[item])


def prices(book: Book, item: int | str) -> list[tuple[str, int]]:
    return [(quote.provider, quote.price) for quote in book.quotes(item)]


def test_has_the_best_first_over_all_phases_of_a_name() -> None:
    book = Book("ask")
    for event in (READY, changed("b", 1, 300, phase="Ruby"), changed("a", 2, 300), changed("c", 2, 200), END):
        book.apply(event)
    assert prices(book, "Item") == [("c", 200), ("a", 300), ("b", 300)]
    assert prices(book, 1) == [("b", 300)]
    assert prices(book, "No item") == []


def test_has_the_highest_bid_first() -> None:
    book = Book("bid")
    for event in (READY, END, changed("a", 1, 300), changed("b", 1, 400)):
        book.apply(event)
    assert prices(book, 1) == [("b", 400), ("a", 300)]


def test_removes_what_is_no_longer_listed() -> None:
    book = Book("ask")
    for event in (READY, changed("a", 1, 300), END, changed("a", 1, None)):
        book.apply(event)
    assert prices(book, 1) == []


def test_shows_a_state_once_it_is_whole_and_nothing_of_one_that_broke_off() -> None:
    book = Book("ask")
    for event in (READY, changed("a", 1, 300), END, READY, changed("a", 1, 1), READY, changed("b", 1, 200)):
        book.apply(event)
    assert prices(book, 1) == [("a", 300)]
    book.apply(END)
    assert prices(book, 1) == [("b", 200)]
