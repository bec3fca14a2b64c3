"""Exports of MediaWiki: what becomes of pages, redirects and revisions, and of files that break off
or lie.
"""

from pathlib import Path

import pytest

from transforms.documents.wiki_pages import WikiPage, latest_pages, page_file, wiki_pages
from transforms.formats.converted import FormatError
from transforms.formats.wikitext import wikitext_markdown

FILES = Path(__file__).parent / "files"
EXPORT = (FILES / "werkstatt.xml").read_bytes()


@pytest.mark.parametrize("size", [7, 1 << 20])
def test_a_page_is_its_last_revision_with_its_redirects_as_aliases(size: int):
    blocks = (EXPORT[start : start + size] for start in range(0, len(EXPORT), size))
    pages = {
        page.title: (page, aliases)
        for page, aliases in latest_pages(wiki_pages(blocks, "w", 1 << 20))
    }
    file = page_file(*pages["Drehtür"], wikitext_markdown(pages["Drehtür"][0].text.encode()))
    assert file.converted and file.converted.text == (FILES / "drehtuer.md").read_text()
    assert (file.path, file.converted.fields) == (
        "Werkstatt/Drehtür.mediawiki",
        {
            "title": "Drehtür",
            "tags": ["Türen", "Bauteile"],
            "aliases": ["Karusselltür"],
            "editor": "Ada",
            "modified": "2024-05-06T07:08:09Z",
        },
    )
    assert {title: page.fault for title, (page, _) in pages.items() if page.fault} == {
        "Tor": "redirect: it leads to Werkstatt/Einfahrt.mediawiki, which is not in the export",
        "Vorlage:Bauteil": "no_article: it is a template",
        "Werkstatt.css": "no_article: it is a page of css",
    }


def test_of_a_page_in_two_exports_the_one_changed_last_is_read_in_either_order():
    pages = list(wiki_pages([EXPORT], "w", 1 << 20))
    later = list(wiki_pages([EXPORT.replace(b"2024-05-06", b"2024-05-07")], "w", 1 << 20))
    orders = pages + later, later + pages
    found = [{(p.path, p.modified, p.fault) for p, _ in latest_pages(order)} for order in orders]
    old = "duplicate: an export has the page again, changed later"
    assert found[0] == found[1] >= {("Werkstatt/Drehtür.mediawiki", "2024-05-06T07:08:09Z", old)}


@pytest.mark.parametrize(
    ("data", "reason", "before"),
    [
        (EXPORT[:-400], "broken_xml: the rest of it", 4),
        (b"<a></a>", "no_wiki: it is not", 0),
        (b"", "broken_xml", 0),
        (
            EXPORT.replace(b"</mediawiki>", b"<a>" + b"x" * 9999),
            "too_large: an element has more than 5,000 bytes",
            6,
        ),
    ],
)
def test_a_file_that_is_no_export_says_why_behind_the_pages_before(
    data: bytes, reason: str, before: int
):
    pages: list[WikiPage] = []
    with pytest.raises(FormatError, match=reason):
        pages.extend(
            wiki_pages([data[at : at + 1000] for at in range(0, len(data), 1000)], "w", 5000)
        )
    assert len(pages) == before


@pytest.mark.parametrize(
    ("wikitext", "markdown"),
    [
        ("{{lang|de|Tür}} und {{Stub}}", "de Tür und"),
        ("a [[:Kategorie:B]] b", "a [[Kategorie:B]] b"),
        ("[[m:Help|help]] [[File:x.png]] [http://a.example]", "help  http://a.example"),
        ("{{{1|as given}}} &lt;b&gt; 5&nbsp;m", "as given \\<b> 5 m"),
        ("; Term : its sense", "Term\n\nits sense"),
        ("<gallery>\nFile:a.png|A ''door''\nb.png\n</gallery>", "A door"),
        ("one<br>two\n----\nthree", "one\ntwo\n\nthree"),
        ("<ul><li>one</li><li>two</li></ul>", "- one\n\n- two"),
        ("{|\n|a\n|b|c\n|}", "| a | c |\n| --- | --- |"),
        ("a <code>[[b]]</code> <math>x^2</math><script>c</script>", "a `[[b]]` x^2"),
        ("{{" * 3000 + "a", "{{" * 3000 + "a"),
    ],
)
def test_wikitext_becomes_markdown_without_its_markup(wikitext: str, markdown: str):
    assert wikitext_markdown(wikitext.encode()).text == f"{markdown}\n"
