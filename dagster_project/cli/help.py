"""`weft help`: the pages of the documentation, which are installed with the program."""

import difflib
import re
from pathlib import Path

import click

from dagster_project.cli.options import TEXT_TYPE, explained
from transforms.documents.nodes import slug_base
from transforms.errors import SettingsError

_INSTALLED = Path(__file__).parents[1] / "docs"
_OF_REPOSITORY = Path(__file__).parents[2] / "docs"
_HEADING = re.compile(r"^(#{1,6}) (.+)$", re.M)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)


@click.command("help")
@click.argument("topic", required=False, type=TEXT_TYPE)
@explained
def help_(topic: str | None) -> None:
    """Print a page of the documentation or a section of one; without TOPIC list them.

    TOPIC is the name of a page, as `sources`, or a heading, as `exit-codes`. For a command, ask
    `weft COMMAND --help`.
    """
    pages = {
        file.stem: file.read_text(encoding="utf-8") for file in sorted(documentation().glob("*.md"))
    }
    if topic is None:
        width = max(map(len, pages)) + 2
        click.echo("\n".join(f"{name:<{width}}{_title(text)}" for name, text in pages.items()))
        click.echo(
            "\nweft help TOPIC prints a page, or the section with that heading; weft COMMAND --help a command."
        )
    elif (name := topic.lower().removesuffix(".md").removeprefix("docs/")) in pages:
        click.echo(pages[name])
    else:
        click.echo(_section(slug_base(topic), pages))


def documentation() -> Path:
    """The folder of the pages, and of the notebook that asks a published index."""
    return _INSTALLED if _INSTALLED.is_dir() else _OF_REPOSITORY


def _title(text: str) -> str:
    match = _HEADING.search(text)
    return match[2] if match else ""


def _section(topic: str, pages: dict[str, str]) -> str:
    """The section whose heading is `topic`; SettingsError with the nearest topics if there is none."""
    topics = set(pages)
    for text in pages.values():
        plain = _FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        headings = list(_HEADING.finditer(plain))
        for number, heading in enumerate(headings):
            topics.add(name := slug_base(heading[2]))
            if name == topic:
                after = (h.start() for h in headings[number + 1 :] if len(h[1]) <= len(heading[1]))
                return text[heading.start() : next(after, len(text))].rstrip()
    near = difflib.get_close_matches(topic, sorted(topics), 5, 0.5)
    hint = f"nearest are {', '.join(near)}" if near else "`weft help` lists the pages"
    raise SettingsError(f"no page or section is called {topic}: {hint}")
