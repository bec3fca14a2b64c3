"""Which extras changed: `make test` runs the tests of those alone, once all have passed."""

from hashlib import sha256
from pathlib import Path


def digests(root: Path) -> dict[str, str]:
    """By name of an extra the hash of its files and of its tests."""
    found: dict[str, list[str]] = {}
    for file in sorted((root / "dagster_project" / "extras").glob("*/**/*")):
        if file.is_file() and "__pycache__" not in file.parts:
            place = file.relative_to(root)
            found.setdefault(place.parts[2], []).append(
                f"{place} {sha256(file.read_bytes()).hexdigest()}"
            )
    return {
        name: sha256("\n".join(parts).encode()).hexdigest() for name, parts in sorted(found.items())
    }
