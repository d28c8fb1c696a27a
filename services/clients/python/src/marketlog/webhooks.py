"""Deliveries of webhooks: whether they come from the platform, and what they say."""

import hashlib
import hmac
import time
from collections.abc import Mapping

from .errors import read_model
from .models import AlertTriggered

TOLERANCE_SECONDS = 300


class InvalidSignature(Exception):
    """A delivery that is not signed by the destination's secret, or too old to be taken."""


def verify(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance_seconds: float = TOLERANCE_SECONDS
) -> AlertTriggered:
    """
    The event of a genuine delivery; raises InvalidSignature for any other.

    `body` is as it arrived, before any decoding, and `headers` any mapping of the request's headers. The same
    `X-SVC-Delivery-Id` again is a repeat.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    timestamp = lowered.get("x-svc-timestamp", "")
    signed = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(signed.encode(), lowered.get("x-svc-signature", "").encode()):
        raise InvalidSignature("the signature is not that of the body")
    # Signed, so it is the platform's own number.
    if abs(time.time() - int(timestamp)) > tolerance_seconds:
        raise InvalidSignature("the delivery is too old, or the clock of this machine is wrong")
    return read_model(AlertTriggered, body)
