"""The build hook: writes what of the package is made of the description before hatchling collects the files of a wheel."""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GeneratedFiles(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "generate"))
        from package_files import write_package_files

        # A source distribution carries the description; the repository has it among the schemas.
        own = root / "openapi.json"
        write_package_files(
            own if own.exists() else root.parents[2] / "schemas/api/openapi.json", root / "src/marketlog"
        )
