"""
The methods of the operations, as the text of a module.

A method has the name of its operation in snake case, takes parameters of the path in their order and all others by name, and returns the model of the
reply. Feeds have none: services of `feeds.py` open them. What no program needs is left out: `strict` is for parameters that a method does not take.
"""

import json
import re
import textwrap
from typing import Any

LEFT_OUT = {"strict"}
LONGEST_ENUM = 8
INSTANT = {"type": "string", "maxLength": 40}
SCALARS = {"integer": "int", "number": "float", "boolean": "bool", "string": "str"}
RESERVED = {"from": "from_"}
HEADER = """\
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date as Date
from datetime import datetime as Datetime
from typing import Any, Literal, overload

from .. import models
from ..requests import UNSET, Unset, given, path_of, present
from .caller import AsyncCaller


class AsyncOperations(AsyncCaller):
    \"\"\"A method per operation.\"\"\"
"""


def operations_module(document: dict[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    operations = [
        Operation(path, verb, one, schemas) for path, verbs in document["paths"].items() for verb, one in verbs.items()
    ]
    callable_ones = [one for one in operations if one.reply_type != "text/event-stream"]
    paged = [one for one in callable_ones if one.rows]
    streamed = [one for one in callable_ones if one.reply_type == "application/x-ndjson"]
    rows = "".join(f'        "{one.name}": {one.rows!r},\n' for one in paged)
    parts = [
        HEADER,
        f"    _rows_of = {{\n{rows}    }}\n",
        *(one.method() for one in callable_ones),
        overloads("pages", "All rows of a list, page after page.", "self._pages(operation, parameters)", paged),
        overloads(
            "snapshot", "The rows of a snapshot as they arrive.", "getattr(self, operation)(**parameters)", streamed
        ),
    ]
    return "\n".join(parts)


def overloads(name: str, summary: str, returned: str, operations: list["Operation"]) -> str:
    cases = "".join(
        f"    @overload\n    def {name}(\n"
        f'        self, operation: Literal["{one.name}"], **parameters: Any\n'
        f"    ) -> AsyncIterator[models.{one.row_model}]: ...\n"
        for one in operations
    )
    return (
        f"{cases}    def {name}(self, operation: str, **parameters: Any) -> AsyncIterator[Any]:\n"
        f'        """{summary}"""\n        rows: AsyncIterator[Any] = {returned}\n        return rows\n'
    )


class Operation:
    def __init__(self, path: str, verb: str, described: dict[str, Any], schemas: dict[str, Any]) -> None:
        self.path, self.verb, self.described, self.schemas = path, verb.upper(), described, schemas
        self.name = snake(described["operationId"])
        status = next(one for one in described["responses"] if one < "400")
        content: dict[str, Any] = described["responses"][status].get("content", {})
        self.status = int(status)
        self.reply_type = next(iter(content), None)
        reply: dict[str, Any] = content.get(self.reply_type or "", {})
        self.model = reply.get("schema", {}).get("$ref", "").split("/")[-1]
        self.rows, self.row_model = self.list_of_rows()
        if self.reply_type == "application/x-ndjson":
            self.row_model = self.model

    def list_of_rows(self) -> tuple[tuple[str, ...], str]:
        """Where a page has its rows, and their model."""
        reply = self.schemas.get(self.model, {}).get("properties", {})
        if "pagination" not in reply:
            return (), ""
        places: list[tuple[tuple[str, ...], Any]] = [((key,), one) for key, one in reply.items()]
        places += [
            ((key, inner), one)
            for key in reply
            for inner, one in reply[key].get("properties", {}).items()
            if key != "meta"
        ]
        path, rows = next((place, one) for place, one in places if one.get("type") == "array")
        return path, rows["items"].get("title") or rows["items"]["$ref"].split("/")[-1]

    def method(self) -> str:
        parameters = [one for one in self.described.get("parameters", []) if one["name"] not in LEFT_OUT]
        bodies: dict[str, Any] = self.described.get("requestBody", {}).get("content", {})
        body_type = next(iter(bodies), None)
        body: dict[str, Any] = bodies.get(body_type or "", {})
        members = body.get("schema", {}).get("properties", {})
        required = set(body.get("schema", {}).get("required", []))
        by_place = {place: [one for one in parameters if one["in"] == place] for place in ("path", "query", "header")}

        in_path = [f"{one['name']}: {hint(one['schema'])}" for one in by_place["path"]]
        others = [self.argument(one["name"], one["schema"], one["required"]) for one in by_place["query"]]
        others += [self.argument(name, one, name in required) for name, one in members.items()]
        others += [self.argument(one["name"], one["schema"], one["required"]) for one in by_place["header"]]
        described = [(one["name"], one.get("description", "")) for one in parameters]
        described += [(name, one.get("description", "")) for name, one in members.items()]

        call = [f'"{self.verb}"', self.path_text(by_place["path"])]
        if by_place["query"]:
            call.append(f"query=present({mapping(by_place['query'])})")
        if body_type == "application/json":
            pairs = ", ".join(f'"{name}": {python_name(name)}' for name in members)
            call.append(f"body={'given' if self.verb == 'PATCH' else 'present'}({{{pairs}}})")
        elif body_type is not None:
            pairs = ", ".join(f'"{name}": {python_name(name)}' for name in members)
            call.append(f"files={{{pairs}}}")
        if by_place["header"]:
            call.append(f"headers=present({mapping(by_place['header'])})")

        signature = ", ".join(
            ["self", *in_path, *(["*", *sorted(others, key=lambda one: "=" in one)] if others else [])]
        )
        returns, sent = self.returned(", ".join(call))
        prefix = "def" if returns.startswith("AsyncIterator") else "async def"
        return f"    {prefix} {self.name}({signature}) -> {returns}:\n{self.documentation(described)}        {sent}\n"

    def argument(self, name: str, schema: dict[str, Any], is_required: bool) -> str:
        text = f"{python_name(name)}: {hint(schema)}"
        if is_required:
            return text
        optional = text if text.endswith("| None") else f"{text} | None"
        return f"{optional} | Unset = UNSET" if self.verb == "PATCH" else f"{optional} = None"

    def path_text(self, parameters: list[dict[str, Any]]) -> str:
        values = "".join(f", {one['name']}={one['name']}" for one in parameters)
        return f'path_of("{self.path}"{values})' if values else f'"{self.path}"'

    def returned(self, call: str) -> tuple[str, str]:
        if self.reply_type == "application/json" and "properties" not in self.schemas[self.model]:
            plain = reply_hint(self.schemas[self.model])
            return plain, f"return await self._root(models.{self.model}, {call})"
        if self.reply_type == "application/json":
            return f"models.{self.model}", f"return await self._json(models.{self.model}, {call})"
        if self.reply_type == "application/x-ndjson":
            return f"AsyncIterator[models.{self.model}]", f"return self._lines(models.{self.model}, {call})"
        if self.reply_type is not None:
            return "str", f"return await self._text({call})"
        if self.status == 302:
            return "str", f"return await self._location({call})"
        return "None", f"await self._text({call})"

    def documentation(self, parameters: list[tuple[str, str]]) -> str:
        lines = [f"{self.described['summary']}.", "", *paragraphs(self.described.get("description", ""), "")]
        if parameters:
            lines += ["", "Args:"]
            for name, description in parameters:
                lines += paragraphs(f"{python_name(name)}: {description}", "    ")
        text = textwrap.indent("\n".join(lines).replace("\\", "\\\\").replace('"""', "'''"), "        ")
        return f'        """{text.strip()}\n        """\n'


def paragraphs(text: str, indent: str) -> list[str]:
    width = 110 - len(indent)
    lines = [part for paragraph in text.split("\n") for part in textwrap.wrap(paragraph, width) or [""]]
    return [(indent + ("    " if indent and at > 0 else "") + line).rstrip() for at, line in enumerate(lines)]


def hint(schema: dict[str, Any]) -> str:
    """The type of an argument."""
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys("None" if one == {"type": "null"} else hint(one) for one in schema["anyOf"]))
    kind: Any = schema.get("type")
    if isinstance(kind, list):
        return " | ".join("None" if one == "null" else SCALARS[one] for one in kind)
    if "enum" in schema and len(schema["enum"]) <= LONGEST_ENUM and kind == "string":
        values = ", ".join(json.dumps(one) for one in schema["enum"])
        return f"Literal[{values}]"
    if schema.get("contentMediaType"):
        return "str | bytes"
    if schema.get("format") == "date":
        return "str | Date"
    if schema == INSTANT:
        return "str | Date | Datetime"
    if kind == "array":
        return f"Sequence[{hint(schema['items'])}]"
    if kind == "object":
        return "Mapping[str, Any]"
    return SCALARS[kind]


def reply_hint(schema: dict[str, Any]) -> str:
    """The type of a reply that has no members of its own."""
    if "$ref" in schema:
        return f"models.{schema['$ref'].split('/')[-1]}"
    if schema["type"] == "array":
        return f"list[{reply_hint(schema['items'])}]"
    if schema["type"] == "object":
        return f"dict[str, {reply_hint(schema['additionalProperties'])}]"
    return SCALARS[schema["type"]]


def mapping(parameters: list[dict[str, Any]]) -> str:
    pairs = ", ".join(f'"{one["name"]}": {python_name(one["name"])}' for one in parameters)
    return f"{{{pairs}}}"


def python_name(name: str) -> str:
    snaked = snake(name.replace("-", "_"))
    return RESERVED.get(snaked, snaked)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
