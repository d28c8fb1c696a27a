"""Prices, feeds and history of marketlog."""

from ._async.client import AsyncMarketlog
from ._sync.client import Marketlog
from .book import Quote
from .errors import FeedGap, MarketlogError
from .money import to_decimal
from .requests import UNSET

__all__ = ["UNSET", "AsyncMarketlog", "FeedGap", "Marketlog", "MarketlogError", "Quote", "to_decimal"]
