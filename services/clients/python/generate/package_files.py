"""
Writes the generated files of the package from the description of the API.

models.py by datamodel-code-generator, _async/operations.py by operations.py beside this file, and _sync of _async by unasync. The models accept
what a newer platform sends: unknown members are ignored and an unknown value of an enumeration is a text, so bounds are not repeated either.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import unasync
from operations import operations_module

BOUNDS = {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
    *("pattern", "additionalProperties", "propertyNames"),
}
KEPT_FORMATS = {"date", "date-time"}
GENERATED = '"""Generated from the description of the API."""\n\n'
MODEL_OPTIONS = [
    *(
        "--input-file-type",
        "openapi",
        "--output-model-type",
        "pydantic_v2.BaseModel",
        "--target-python-version",
        "3.10",
    ),
    *("--enum-field-as-literal", "all", "--use-standard-collections", "--use-union-operator", "--use-title-as-name"),
    *("--use-field-description", "--use-schema-description", "--use-double-quotes", "--disable-timestamp"),
    *("--output-datetime-class", "AwareDatetime", "--formatters", "ruff-format"),
]


def write_package_files(description: Path, package: Path) -> None:
    document = json.loads(description.read_text())
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        schemas[name] = replied(schema, name)
    write_models(document, package / "models.py")
    operations = package / "_async/operations.py"
    operations.write_text(GENERATED + operations_module(document))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", "--isolated", str(operations)], check=True)
    write_sync(package)


def replied(schema: Any, name: str) -> Any:
    """A schema as replies are read by it; each object in it has a name of its own."""
    if not isinstance(schema, dict):
        return schema
    read = {key: value for key, value in schema.items() if key not in BOUNDS}
    if read.get("format") not in KEPT_FORMATS:
        read.pop("format", None)
    if "const" in read:
        read["type"] = "string" if isinstance(read.pop("const"), str) else "integer"
    if "properties" in read:
        read["title"] = name
        read["properties"] = {key: replied(value, name + camel(key)) for key, value in read["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        read["additionalProperties"] = replied(schema["additionalProperties"], name + "Value")
    for key in ("items", "anyOf", "oneOf", "allOf"):
        if key in read:
            of = read[key]
            read[key] = [replied(one, name) for one in of] if isinstance(of, list) else replied(of, name + "Item")
    if "enum" in read:
        return {"anyOf": [read, {"type": "string"}]}
    return read


def camel(key: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in key.split("_"))


def write_models(document: dict[str, Any], target: Path) -> None:
    only = {**document, "paths": {}, "webhooks": {}, "components": {"schemas": document["components"]["schemas"]}}
    with TemporaryDirectory() as folder:
        source = Path(folder) / "openapi.json"
        source.write_text(json.dumps(only))
        command = [sys.executable, "-m", "datamodel_code_generator", *MODEL_OPTIONS]
        subprocess.run([*command, "--input", str(source), "--output", str(target)], check=True)


def write_sync(package: Path) -> None:
    """The package for threads, of that for event loops."""
    names = {
        "AsyncMarketlog": "Marketlog",
        "AsyncOperations": "Operations",
        "AsyncCaller": "Caller",
        "async_sleep": "sleep",
        "AsyncFeed": "Feed",
        "AsyncFeeds": "Feeds",
        "AsyncLiveBook": "LiveBook",
        "AsyncFlag": "Flag",
        "AsyncBackground": "Background",
        "AsyncClient": "Client",
        "aiter_bytes": "iter_bytes",
        "aiter_sse": "iter_sse",
        "aclose": "close",
        "anext": "next",
        "_async": "_sync",
    }
    rule = unasync.Rule(f"{package}/_async/", f"{package}/_sync/", additional_replacements=names)
    unasync.unasync_files([str(file) for file in (package / "_async").glob("*.py")], [rule])


if __name__ == "__main__":
    write_package_files(Path(sys.argv[1]), Path(sys.argv[2]))
