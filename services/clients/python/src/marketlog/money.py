"""Amounts: integers in hundredths of their currency, for every currency."""

from decimal import Decimal


def to_decimal(amount: int) -> Decimal:
    """4358 -> Decimal("43.58"), exactly."""
    return Decimal(amount).scaleb(-2)
