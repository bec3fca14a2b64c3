"""What to say when a package of an optional extra is not installed."""

from __future__ import annotations

from transforms.errors import SettingsError


def not_installed(error: ImportError, extra: str) -> SettingsError:
    """The fault for a package that the extra named like the model would have brought."""
    return SettingsError(
        f"{error.name} is not installed: `pip install 'weft[{extra}]'` brings what {extra} needs"
    )
