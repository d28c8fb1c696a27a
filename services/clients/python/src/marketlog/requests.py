"""Requests as operations make them: names and values on the wire."""

import enum
from collections.abc import Mapping
from datetime import date, datetime, timezone
from typing import Any, Final
from urllib.parse import quote


class Unset(enum.Enum):
    """Of a member that a change leaves as it is; None clears it."""

    UNSET = enum.auto()


UNSET: Final = Unset.UNSET


def path_of(template: str, **values: object) -> str:
    return template.format(**{name: quote(str(value), safe="") for name, value in values.items()})


def present(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left out."""
    return {name: on_wire(value) for name, value in values.items() if value is not None}


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Of a change: without what it leaves as it is."""
    return {name: on_wire(value) for name, value in values.items() if value is not UNSET}


def on_wire(value: Any) -> Any:
    """A moment without a zone is UTC, as the platform takes it."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value.isoformat() if isinstance(value, date) else value
