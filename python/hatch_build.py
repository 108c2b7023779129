"""Puts the programs into the wheel: ``cargo xtask wheel`` names their folder and its tag.

Without them the wheel is pure Python, and finds ``neroman`` on ``PATH``.
"""

import os
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    """``neroman`` starts without an interpreter; the other programs lie where it looks for them."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        """Adds ``neroman``, ``neroman-office`` and the folder ``agents`` of ``NERONET_WHEEL``."""
        folder = os.environ.get("NERONET_WHEEL")
        if not folder:
            return
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["NERONET_WHEEL_TAG"]
        for name in ("neroman", "neroman-office"):
            build_data["shared_scripts"][os.path.join(folder, name)] = name
        noodles = os.path.join(os.path.dirname(os.path.abspath(__file__)), "noodles")
        build_data["shared_scripts"][noodles] = "noodles"
        build_data["shared_data"][os.path.join(folder, "agents")] = "share/neronet/agents"
