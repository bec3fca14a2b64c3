"""`weft verify`: citations followed back to their sources, link by link."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from dagster_project.cli.options import CONFIG, JSON, LENS, TEXT_TYPE, explained
from dagster_project.config.settings import Settings, load_settings
from dagster_project.extras.proof import citations
from dagster_project.extras.proof.citations import ProofLink, Reference
from dagster_project.extras.proof.origins import origin_links
from dagster_project.extras.proof.signatures import Keys
from dagster_project.index.search.opened_index import open_index
from dagster_project.index.search.search_index import SearchIndex
from dagster_project.outgoing.screen import Screen
from dagster_project.system.globs import is_file
from transforms.errors import CheckFailedError, QueryError, UnknownIdError

_COLUMNS, _INDENT = 80, 10


@click.command()
@click.argument("what", nargs=-1, required=True, type=TEXT_TYPE, metavar="CITATION|URL|FILE|-")
@CONFIG
@JSON
@LENS
@click.option(
    "--keys",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with DKIM keys, one a line: `selector._domainkey.domain TXT`.",
)
@click.option(
    "--dns", is_flag=True, help="Ask DNS for keys that the file does not have, and record them."
)
@explained
def verify(
    what: tuple[str, ...],
    config: Path | None,
    as_json: bool,
    lens: str | None,
    keys: Path | None,
    dns: bool,
) -> None:
    """Follow citations back to their sources: to the mail or file, its commit, and the sender's signature.

    FILE, or - for standard input, holds a block of context or an answer. Each citation in it is followed, and the
    quote above it, or before it in quotation marks, is compared with the cited bytes.

    Each step is proved, unchanged since read, source gone, differs or not known. Exit code 7 if one differs or is gone.
    """
    settings, text = load_settings(config), " ".join(what)
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    elif is_file(Path(text)):
        text = Path(text).read_text("utf-8", "replace")
    with closing(open_index(settings, lens=lens)) as index:
        chains = proofs(settings, index, lens, text, Keys(settings.root, keys, dns))
    is_whole = all(link.state not in citations.FAILING for _, links in chains for link in links)
    if as_json:
        listed = [
            {"citation": name, "links": [link._asdict() for link in links]}
            for name, links in chains
        ]
        answer = {"outcome": "VERIFIED" if is_whole else "NOT_VERIFIED", "citations": listed}
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        click.echo("\n\n".join("\n".join(_lines(name, links)) for name, links in chains))
    if not is_whole:
        sys.exit(CheckFailedError.exit_code)


def proofs(
    settings: Settings, index: SearchIndex, lens: str | None, text: str, keys: Keys | None = None
) -> list[tuple[str, list[ProofLink]]]:
    """The citations in a text, each with the links to its source; without `keys` by those that were recorded."""
    screen = Screen(
        settings.safety, True, settings.lenses[lens].emails if lens in settings.lenses else ()
    )
    with TemporaryDirectory() as memory:
        known = cache(
            partial(origin_links, settings, index, Path(memory), keys or Keys(settings.root))
        )
        look = None if lens or not index.screen.is_open else known
        return [
            (c.citation, list(_chain(index, c, screen, look)))
            for c in citations.references_in(text)
        ]


def _chain(
    index: SearchIndex,
    reference: Reference,
    screen: Screen,
    look: Callable[[str, str], list[ProofLink]] | None,
) -> Iterator[ProofLink]:
    """The links of a citation; without `look` nothing beyond the published file is looked at."""
    try:
        whole, start, end = citations.cited_text(index, reference.citation)
    except (QueryError, UnknownIdError) as fault:
        yield ProofLink("quote", citations.DIFFERS, str(fault))
        return
    yield citations.quote_link(index, whole, start, end, reference.quote, screen)
    hidden = ProofLink(
        "source", citations.UNKNOWN, "no lens and no mask looks into raw mails and files"
    )
    yield from look(whole.doc_id, whole.text) if look else [hidden]


def _lines(citation: str, links: list[ProofLink]) -> Iterator[str]:
    yield from textwrap.wrap(f"⟨{citation}⟩", _COLUMNS, subsequent_indent=" ")
    for name, state, detail in links:
        text, indent = f"  {name:<{_INDENT - 2}}{state}: {detail}", " " * _INDENT
        yield from textwrap.wrap(text, _COLUMNS, subsequent_indent=indent, break_on_hyphens=False)
