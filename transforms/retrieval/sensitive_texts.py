"""Texts that somebody labelled as sensitive."""

from transforms.errors import SettingsError

PUBLIC = "public"
"""The label of a text that is not sensitive."""


def read_labels(text: str, name: str) -> dict[str, str]:
    """The label of each id of a file: a line has an id, a tab and a label; other columns, empty
    lines and # are left out.

    SettingsError names the line that is not so.
    """
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            key, *label = (part.strip() for part in line.split("\t"))
            if not key or not label or not label[0]:
                raise SettingsError(
                    f"{name}, line {number}: write an id, a tab and a label, as `<a@b.c>\tsecret`"
                )
            labels[key.removeprefix("<").removesuffix(">")] = label[0].lower()
    return labels
