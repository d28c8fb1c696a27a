import hashlib
import hmac
import json
import time
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pydantic import BaseModel

from marketlog import to_decimal
from marketlog.frames import to_pandas, to_polars
from marketlog.models import PriceEntry, Sale
from marketlog.requests import on_wire, path_of
from marketlog.webhooks import InvalidSignature, verify

EVENT = {
    "id": "0195a3d0-10f3-7d11-a2b4-0c9d8e7f6a5b",
    "type": "alert.triggered",
    "created_at": "2026-03-03T21:41:00.000Z",
    "data": {
        **{"alert_id": "0195a3b0-2f10-7a54-9c1d-3e2f1a0b9c8d", "kind": "price_below", "item_id": 4940},
        **{"market_hash_name": "AK-47 | Redline (Field-Tested)", "phase": None, "threshold_value": "30.00"},
        **{
            "threshold_currency": "USD",
            "triggered_value": "29.31",
            "triggered_currency": "USD",
            "best_ask_usd": "29.31",
        },
        **{"best_bid_usd": None, "providers": {"ask": "provider_02", "bid": None}},
    },
}
BODY = json.dumps(EVENT).encode()
SECRET = "whsec_of_a_test"


def signed(body: bytes, timestamp: float, secret: str = SECRET) -> dict[str, str]:
    stamp = str(int(timestamp))
    signature = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-SVC-Timestamp": stamp, "X-SVC-Signature": signature}


def test_takes_a_delivery_that_its_secret_signed() -> None:
    assert verify(BODY, signed(BODY, time.time()), SECRET).data.item_id == 4940


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (BODY.replace(b"29.31", b"19.31"), signed(BODY, time.time())),
        (BODY, signed(BODY, time.time(), "whsec_of_another")),
        (BODY, signed(BODY, time.time() - 301)),
        (BODY, signed(BODY, time.time() + 400)),
        (BODY, {}),
        (BODY, {"X-SVC-Timestamp": "now", "X-SVC-Signature": "é"}),
    ],
)
def test_refuses_any_other(body: bytes, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidSignature):
        verify(body, headers, SECRET)


def test_gives_amounts_exactly() -> None:
    assert [str(to_decimal(amount)) for amount in (4358, 5, 0, -120)] == ["43.58", "0.05", "0.00", "-1.20"]
    assert to_decimal(10**20 + 1) == Decimal("1000000000000000000.01")


def test_writes_moments_in_utc_and_paths_without_surprises() -> None:
    moment = datetime(2026, 3, 3, 1, tzinfo=timezone(timedelta(hours=1)))
    assert on_wire(moment) == "2026-03-03T00:00:00.000000Z"
    assert on_wire(moment.replace(tzinfo=None)) == "2026-03-03T01:00:00.000000Z"
    assert on_wire(moment.date()) == "2026-03-03"
    assert path_of("/v1/portfolio/{id}", id="../account?x") == "/v1/portfolio/..%2Faccount%3Fx"


def price(phase: str | None) -> BaseModel:
    return PriceEntry.model_validate(
        {
            **{"provider": "provider_01", "item_id": 1, "market_hash_name": "★ Karambit", "phase": phase},
            **{"lowest_ask": 4358, "lowest_ask_decimal": "43.58", "quantity": 2, "link": "http://127.0.0.1/r"},
            **{"timestamp": "2026-03-03T00:00:00.000Z", "last_updated": "2026-03-03T00:00:00.000Z"},
        }
    )


def test_gives_polars_the_types_of_the_model_when_a_column_begins_with_nulls() -> None:
    import polars

    frame = to_polars([price(None)] * 200 + [price("Ruby")])
    assert frame.schema["phase"] == polars.String
    assert frame.schema["lowest_ask"] == polars.Int64
    assert frame.schema["timestamp"] == polars.Datetime("ms", "UTC")
    assert frame["phase"].to_list()[-1] == "Ruby"


def test_keeps_the_types_where_there_are_no_rows() -> None:
    assert to_polars([], PriceEntry).schema == to_polars([price(None)]).schema
    assert dict(to_pandas([], PriceEntry).dtypes) == dict(to_pandas([price(None)]).dtypes)
    with pytest.raises(ValueError, match="name their model"):
        to_polars([])


def test_keeps_nested_lists_and_missing_numbers() -> None:
    about = {"date": "2026-03-03T00:00:00.000Z", "provider": "p", "price": 1, "currency": "USD", "item_id": 1}
    sale = {
        **about,
        "market_hash_name": "a",
        "phase": None,
        "float": None,
        "paint_seed": None,
        "charms": None,
        "inspect": None,
    }
    plain = Sale.model_validate({**sale, "stickers": None})
    full = Sale.model_validate({**sale, "paint_seed": 5, "stickers": [{"name": "s", "slot": 0, "wear": 0.5}]})
    frame = to_polars([plain, full])
    assert frame["stickers"].to_list() == [None, [{"name": "s", "slot": 0, "wear": 0.5}]]
    assert str(to_pandas([plain, full])["paint_seed"].dtype) == "Int64"
