"""
Rows as frames of pandas or polars, with the columns and types of their model.

Types that are inferred from the first rows fail on a column that begins with nulls, as `phase` does, and are lost where there are no rows.
"""

import types
from collections.abc import Iterable
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas
    import polars


def to_polars(rows: Iterable[BaseModel], model: type[BaseModel] | None = None) -> "polars.DataFrame":
    """A frame of rows of one model, which is to be named where there may be no rows."""
    import polars

    listed, of = _rows_and_model(rows, model)
    schema = {name: _polars_type(field.annotation) for name, field in of.model_fields.items()}
    return polars.DataFrame([row.model_dump() for row in listed], schema=schema, orient="row")


def to_pandas(rows: Iterable[BaseModel], model: type[BaseModel] | None = None) -> "pandas.DataFrame":
    """A frame of rows of one model, which is to be named where there may be no rows; integers may be missing (`Int64`)."""
    import pandas

    listed, of = _rows_and_model(rows, model)
    dumped = [row.model_dump() for row in listed]
    columns = {
        name: pandas.Series([row[name] for row in dumped], dtype=_pandas_type(field.annotation))
        for name, field in of.model_fields.items()
    }
    return pandas.DataFrame(columns)


def _rows_and_model(
    rows: Iterable[BaseModel], model: type[BaseModel] | None
) -> tuple[list[BaseModel], type[BaseModel]]:
    listed = list(rows)
    of = model or (type(listed[0]) if listed else None)
    if of is None:
        raise ValueError("there are no rows, so name their model: to_polars(rows, models.PriceEntry)")
    return listed, of


def _plain(annotation: Any) -> Any:
    """Without None, metadata and known values: the type of what a cell holds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain(get_args(annotation)[0])
    if origin is Literal:
        return str
    if origin in (Union, types.UnionType):
        kinds = {_plain(one) for one in get_args(annotation) if one is not type(None)}
        return kinds.pop() if len(kinds) == 1 else object
    return annotation


def _polars_type(annotation: Any) -> Any:
    import polars

    plain = _plain(annotation)
    if get_origin(plain) is list:
        return polars.List(_polars_type(get_args(plain)[0]))
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return polars.Struct({name: _polars_type(field.annotation) for name, field in plain.model_fields.items()})
    simple = {int: polars.Int64, float: polars.Float64, bool: polars.Boolean, str: polars.String, date: polars.Date}
    return polars.Datetime("ms", "UTC") if _is_moment(plain) else simple.get(plain, polars.Object)


def _pandas_type(annotation: Any) -> str:
    plain = _plain(annotation)
    simple = {int: "Int64", float: "float64", bool: "boolean", str: "string"}
    return "datetime64[ms, UTC]" if _is_moment(plain) else simple.get(plain, "object")


def _is_moment(plain: Any) -> bool:
    return getattr(plain, "__name__", "") == "AwareDatetime" or (
        isinstance(plain, type) and issubclass(plain, datetime)
    )
