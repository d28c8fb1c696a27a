import logging
import traceback
from http.server import BaseHTTPRequestHandler

import pytest
from conftest import Answer, ScriptedPlatform, answered, dropped, streamed

from marketlog import UNSET, AsyncMarketlog, Marketlog, MarketlogError

KEY = "sk_live_root_of_a_test"
REFUSED = '{"code":"RATE_LIMIT_EXCEEDED","detail":"wait"}'


META = """{"portfolio_id":"one","currency":"USD","providers_queried":[],"start_date":"2026-03-03",
"end_date":"2026-03-04","interval":"1d","holdings_basis":"ledger_close","valuation_basis":"best_provider_close"}"""
DAY = '{"date":"2026-03-03","total_value":1,"positions":1,"items_valued":1,"items_missing_price":0}'


def days(count: int, cursor: str) -> str:
    has_next = "false" if cursor == "null" else "true"
    page = f'"limit":2,"offset":0,"total":-1,"has_next":{has_next},"has_prev":false,"next_cursor":{cursor}'
    return f'{{"meta":{META},"data":[{",".join([DAY] * count)}],"pagination":{{{page}}}}}'


def keys(offset: int, has_next: str) -> str:
    page = f'"limit":2,"offset":{offset},"total":3,"has_next":{has_next},"has_prev":false'
    return f'{{"keys":[],"pagination":{{{page}}}}}'


def test_waits_as_a_refusal_asks_and_sends_the_call_again(platform: ScriptedPlatform) -> None:
    platform.answers = [
        answered(429, REFUSED, Retry_After="0"),
        answered(503, REFUSED, Retry_After="0"),
        answered(204, ""),
    ]
    with Marketlog(platform.url, KEY) as market:
        market.delete_portfolio("one")
    assert len(platform.requests) == 3


def test_gives_up_after_so_many_refusals(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(503, REFUSED, Retry_After="0")]
    with Marketlog(platform.url, KEY, retries=2) as market, pytest.raises(MarketlogError) as raised:
        market.delete_portfolio("one")
    assert (raised.value.status, len(platform.requests)) == (503, 3)


def test_raises_at_once_what_asks_for_a_longer_wait_than_is_allowed(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(429, REFUSED, Retry_After="86400", X_Request_Id="r-1")]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError) as raised:
        market.delete_portfolio("one")
    error = raised.value
    assert (error.status, error.code, error.detail, error.request_id, error.retry_after) == (
        *(429, "RATE_LIMIT_EXCEEDED", "wait"),
        *("r-1", 86400),
    )
    assert len(platform.requests) == 1


def test_sends_a_get_again_whose_connection_was_lost(platform: ScriptedPlatform) -> None:
    platform.answers = [dropped, answered(200, keys(0, "false"))]
    with Marketlog(platform.url, KEY) as market:
        assert market.list_child_keys().keys == []
    assert len(platform.requests) == 2


def test_names_what_of_a_reply_no_model_fits_but_not_its_values(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(200, '{"key":{"secret":"sk_live_secret"}}')]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError, match="UNEXPECTED_REPLY") as raised:
        market.get_key()
    text = "".join(traceback.format_exception(raised.value))
    assert "key.id: Field required" in text
    assert "sk_live_secret" not in text


def test_sends_nothing_else_again_whose_connection_was_lost(platform: ScriptedPlatform) -> None:
    platform.answers = [dropped]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError, match="CONNECTION_FAILED"):
        market.create_portfolio(name="a")
    assert len(platform.requests) == 1


def waits(platform: ScriptedPlatform) -> None:
    platform.is_over.wait()


def test_ends_a_call_whose_answer_does_not_come(platform: ScriptedPlatform) -> None:
    platform.answers = [lambda _: waits(platform)]
    with (
        Marketlog(platform.url, KEY, time_limit=0.2, retries=0) as market,
        pytest.raises(MarketlogError, match="TIME_LIMIT"),
    ):
        market.get_account()


def test_ends_a_call_whose_answer_trickles(platform: ScriptedPlatform) -> None:
    def trickle(request: BaseHTTPRequestHandler) -> None:
        streamed()(request)
        while not platform.is_over.wait(0.05):
            request.wfile.write(b" ")

    platform.answers = [trickle]
    with (
        Marketlog(platform.url, KEY, time_limit=0.3, retries=0) as market,
        pytest.raises(MarketlogError, match="TIME_LIMIT"),
    ):
        market.get_account()


def test_takes_the_key_of_the_environment_and_shows_it_nowhere(
    platform: ScriptedPlatform, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MARKETLOG_KEY", KEY)
    platform.answers = [answered(401, '{"code":"AUTH_INVALID_API_KEY","detail":"no"}')]
    with caplog.at_level(logging.DEBUG), Marketlog(platform.url) as market, pytest.raises(MarketlogError) as raised:
        market.get_account()
    assert platform.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(market) + str(raised.value) + repr(raised.value) + caplog.text + platform.requests[0].path


def test_has_a_code_for_the_page_of_a_proxy(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(404, "<h1>Not here")]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError) as raised:
        market.get_account()
    assert (raised.value.code, raised.value.detail) == ("HTTP_404", "<h1>Not here")


@pytest.mark.parametrize(
    "broken",
    [
        streamed('{"provider":"p', kind="application/x-ndjson"),
        answered(200, '{"provider":"p', Content_Type="application/x-ndjson"),
    ],
)
def test_raises_where_a_snapshot_breaks_off(platform: ScriptedPlatform, broken: Answer) -> None:
    platform.answers = [broken]
    with Marketlog(platform.url, KEY) as market, pytest.raises(MarketlogError, match="CONNECTION_FAILED"):
        list(market.snapshot("stream_prices"))


def test_asks_for_the_next_page_by_its_cursor(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(200, days(2, '"c1"')), answered(200, days(1, "null"))]
    with Marketlog(platform.url, KEY) as market:
        assert len(list(market.pages("list_portfolio_days", id="one", limit=2))) == 3
    assert ["cursor=c1" in request.path for request in platform.requests] == [False, True]


def test_asks_for_the_next_page_by_its_offset(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(200, keys(0, "true")), answered(200, keys(2, "false"))]
    with Marketlog(platform.url, KEY) as market:
        assert list(market.pages("list_child_keys", limit=2)) == []
    assert ["offset=2" in request.path for request in platform.requests] == [False, True]


def test_tells_what_a_change_leaves_from_what_it_clears(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(404)]
    with Marketlog(platform.url, KEY) as market:
        with pytest.raises(MarketlogError):
            market.update_alert("one", threshold_currency=None)
        with pytest.raises(MarketlogError):
            market.update_alert("one", threshold_value=UNSET, threshold_currency=None, is_enabled=True)
        with pytest.raises(MarketlogError):
            market.create_alert(item_id=1, kind="price_below", threshold_value="1.00", threshold_currency=None)
    assert platform.bodies == [
        {"threshold_currency": None},
        {"threshold_currency": None, "is_enabled": True},
        {"item_id": 1, "kind": "price_below", "threshold_value": "1.00"},
    ]


async def test_does_the_same_in_an_event_loop(platform: ScriptedPlatform) -> None:
    platform.answers = [answered(429, REFUSED, Retry_After="0"), answered(204, "")]
    async with AsyncMarketlog(platform.url, KEY) as market:
        await market.delete_portfolio("one")
    assert len(platform.requests) == 2
