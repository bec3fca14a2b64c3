"""`weft verify`: citations followed back to their sources, link by link."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
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
from dagster_project.servers import answers
from dagster_project.servers.answers import CheckedSentence
from dagster_project.system.globs import is_file
from transforms.errors import CheckFailedError, QueryError, UnknownIdError
from transforms.text.visible import visible

_COLUMNS, _INDENT = 80, 10


@click.command()
@click.argument("what", nargs=-1, required=True, type=TEXT_TYPE, metavar="CITATION|URL|TEXT|FILE|-")
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
    """Follow citations back to their sources, and say of each sentence of a text whether a source
    says it.

    TEXT, a FILE, or - for standard input, is an answer or any text, with or without citations. A
    sentence is green if a source says it, yellow if one is near, with what differs, and red if none
    is. Each citation, and that of each green sentence, is followed to the mail or file, its commit,
    and the sender's signature; the quote above it, or before it in quotation marks, is compared
    with the cited bytes.

    Each step is proved, unchanged since read, source gone, differs or not known. Exit code 7 if one
    differs or is gone, or if a sentence is not green.
    """
    settings, text = load_settings(config), " ".join(what)
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
    elif is_file(Path(text)):
        text = Path(text).read_text("utf-8", "replace")
    with closing(open_index(settings, lens=lens)) as index:
        checked = answers.sentences_of(settings, index, text)
        if not checked and citations.references_in(text) == [Reference(text.strip())]:
            with suppress(QueryError):  # A text that names nothing is not a citation that differs.
                citations.cited_text(index, text)
        names = answers.cited_in(text, checked)
        keyring = Keys(settings.root, keys, dns)
        chains = proofs(settings, index, lens, names, keyring) if names else []
    is_whole = all(link.state not in citations.FAILING for _, links in chains for link in links)
    is_whole = is_whole and all(sentence.colour == "green" for sentence in checked)
    if as_json:
        listed = [
            {"citation": name, "links": [link._asdict() for link in links]}
            for name, links in chains
        ]
        answer = {"outcome": "VERIFIED" if is_whole else "NOT_VERIFIED", "citations": listed}
        answer["sentences"] = [sentence.model_dump(mode="json") for sentence in checked]
        click.echo(json.dumps(answer, ensure_ascii=False))
    else:
        parts = [_sentence_lines(s) for s in checked] + [_lines(n, links) for n, links in chains]
        click.echo("\n\n".join("\n".join(lines) for lines in parts))
    if not is_whole:
        sys.exit(CheckFailedError.exit_code)


def proofs(
    settings: Settings, index: SearchIndex, lens: str | None, text: str, keys: Keys | None = None
) -> list[tuple[str, list[ProofLink]]]:
    """The citations in a text, each with the links to its source; without `keys` by those that were
    recorded.
    """
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


def _sentence_lines(sentence: CheckedSentence) -> Iterator[str]:
    """A sentence under its colour, what differs, and the words of the nearest source."""
    indent = " " * _INDENT
    wrapped = partial(textwrap.wrap, width=_COLUMNS, subsequent_indent=indent)
    yield from wrapped(f"{sentence.colour:<{_INDENT}}{visible(sentence.text)}")
    for one in sentence.differs:
        stands = f", the source: {one.stands}" if one.stands else ""
        claim = f" {one.claim}" if one.claim else ""
        yield from wrapped(visible(f"{indent}{one.kind}{claim}{stands}"))
    if sentence.source and sentence.colour != "green":
        yield from wrapped(visible(f"{indent}“{sentence.source}”"))
    if sentence.citation:
        day = f", {sentence.at:%Y-%m-%d}" if sentence.at else ""
        yield from wrapped(visible(f"{indent}{sentence.speaker or ''}{day} ⟨{sentence.citation}⟩"))


def _lines(citation: str, links: list[ProofLink]) -> Iterator[str]:
    yield from textwrap.wrap(f"⟨{citation}⟩", _COLUMNS, subsequent_indent=" ")
    for name, state, detail in links:
        text, indent = f"  {name:<{_INDENT - 2}}{state}: {detail}", " " * _INDENT
        yield from textwrap.wrap(text, _COLUMNS, subsequent_indent=indent, break_on_hyphens=False)
