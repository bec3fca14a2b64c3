"""Files of foreign formats to Markdown: headings, tables, lists, pages, and what cannot be read."""

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from tests import format_files as made
from tests.format_files import Text, page_of, paragraph, pdf, picture
from transforms.documents.files import RawFile, read_documents, separated
from transforms.formats.converted import FormatError, plain
from transforms.formats.pdf import pdf_markdown
from transforms.formats.read import read_format
from transforms.settings.documents import DocumentSettings
from transforms.text.visible import picture_of

_ODT = (
    '<office:text><text:p text:style-name="Title">Doors</text:p><text:h text:outline-level="2">Plan</text:h><text:p>Two'
    '<text:s text:c="2"/>blanks<text:note><text:note-body><text:p>a note</text:p></text:note-body></text:note></text:p>'
    "<text:list><text:list-item><text:p>one</text:p><text:list><text:list-item><text:p>below</text:p></text:list-item>"
    "</text:list></text:list-item></text:list><table:table><table:table-row><table:table-cell "
    'table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell><table:table-cell '
    "table:number-columns-repeated='99'/></table:table-row></table:table></office:text>"
)
_ODP = (
    '<office:presentation><draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>First</text:p>'
    "</draw:text-box></draw:frame><draw:frame><draw:text-box><text:p>said</text:p></draw:text-box></draw:frame>"
    "</draw:page><draw:page><draw:frame><draw:text-box><text:p>more</text:p></draw:text-box></draw:frame></draw:page>"
    "</office:presentation>"
)
EVENT = """BEGIN:VEVENT
DTSTART;TZID=Europe/Berlin:20261128T100000\nDTEND:20261128T110000Z\nRRULE:FREQ=WEEKLY\nSUMMARY:Weir\\, spring
ATTENDEE;CN=Bo Ek:mailto:bo@example.org\nATTENDEE:mailto:cy@example.org\nDESCRIPTION:Boots.\\n# no heading\nEND:VEVENT
"""
TASK = "BEGIN:VTODO\nSUMMARY:Buy rope\nDUE;VALUE=DATE:20260112\nEND:VTODO\n"


def calendar(parts: str) -> bytes:
    return f"BEGIN:VCALENDAR\nX-WR-CALNAME:Brook\n{parts}END:VCALENDAR\n".encode()


CASES = [
    (
        "docx",
        "docx",
        made.docx(
            paragraph("Report", "Title")
            + paragraph("Costs", "heading 2")
            + paragraph("# no heading")
            + made.word_table([["a", "b"], ["1", "2"]])
        ),
        "# Report\n\n## Costs\n\n\\# no heading\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    (
        "docx with styles of its own",
        "docx",
        made.docx(
            paragraph("Costs", "Kapitel")
            + paragraph("Travel", "Unter")
            + paragraph("text", "Loop"),
            styles='<w:style w:type="paragraph" w:styleId="Kapitel"><w:name w:val="Kapitel der Firma"/><w:pPr>'
            '<w:outlineLvl w:val="1"/></w:pPr></w:style><w:style w:type="paragraph" w:styleId="Unter">'
            '<w:name w:val="Unter"/><w:basedOn w:val="Kapitel"/></w:style><w:style w:type="paragraph" '
            'w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>',
        ),
        "## Costs\n\n## Travel\n\ntext",
    ),
    (
        "docx",
        "docx",
        made.docx(
            '<w:p><w:pPr><w:pStyle w:val="Fett"/><w:outlineLvl w:val="1"/></w:pPr><w:r><w:t>Costs</w:t></w:r></w:p>'
            '<w:p><w:pPr><w:outlineLvl w:val="9"/></w:pPr><w:r><w:t>text</w:t></w:r></w:p>'
        ),
        "## Costs\n\ntext",
    ),
    (
        "pptx",
        "pptx",
        made.pptx([("Why", "Because"), ("How", "Thus")], notes="Speak slowly"),
        "## Why\n\nBecause\n\nNotes:\n\nSpeak slowly\n\n## How\n\nThus",
    ),
    (
        "xlsx",
        "sheet",
        made.xlsx({"Costs": [["what", "", "sum"], ["a|b", "", 3.0], ["", "", ""]], "None": []}),
        "## Costs\n\n| what | sum |\n| --- | --- |\n| a\\|b | 3 |",
    ),
    (
        "odt",
        "opendocument",
        made.opendocument(_ODT),
        "# Doors\n\n## Plan\n\nTwo  blanks [a note]\n\n- one\n  - below\n\n| x | x |\n| --- | --- |",
    ),
    (
        "ics",
        "calendar",
        calendar(f"{TASK}{EVENT}"),
        "## Buy rope\n\nWhen: 2026-01-12\n\n## Weir, spring\n\nWhen: 2026-11-28 10:00 Europe/Berlin to 2026-11-28 11:00 UTC"
        "  \nRepeats: FREQ=WEEKLY  \nWith: Bo Ek <bo@example.org>, cy@example.org\n\nBoots.\n\\# no heading",
    ),
    (
        "csv",
        "table",
        '\ufeffname;sum\r\n\r\n"Lise\nMeitner";"1;5"\r\n'.encode(),
        "| name | sum |\n| --- | --- |\n| Lise Meitner | 1;5 |",
    ),
    (
        "csv with inches",
        "table",
        b'pipe,size\n"5" pipe,"x" y\n',
        '| pipe | size |\n| --- | --- |\n| "5" pipe | "x" y |',
    ),
    (
        "tsv of Latin-1",
        "table",
        "Stra\u00dfe\tOrt\n".encode("latin-1"),
        "| Stra\u00dfe | Ort |\n| --- | --- |",
    ),
    (
        "vcf",
        "contacts",
        b"BEGIN:VCARD\r\nFN:Ada Ek\r\nORG:Weir\\, Ltd;Gauges\r\nitem1.EMAIL;TYPE=work:ada@\r\n example.org\r\n"
        b"EMAIL:ek@example.org\r\nPHOTO;ENCODING=b:AAAA\r\nNOTE:Met in\\n# Bergen\r\nEND:VCARD\r\n"
        b"BEGIN:VCARD\r\nVERSION:2.1\r\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=C3=96z;=\r\nBo\r\nEND:VCARD\r\n",
        "## Ada Ek\n\nOrganisation: Weir, Ltd, Gauges  \nMail: ada@example.org; ek@example.org\n\n"
        "Met in\n\\# Bergen\n\n## \u00d6z, Bo",
    ),
    (
        "mhtml",
        "web_archive",
        b"From: <Saved by Blink>\r\nSnapshot-Content-Location: https://example.org/a\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/related; boundary="x"\r\n\r\n--x\r\nContent-Type: text/html\r\n'
        b"Content-Transfer-Encoding: quoted-printable\r\n\r\n<title>Doors</title><h1>D=C3=B6rs</h1><p>open</p>\r\n--x--\r\n",
        "# D\u00f6rs\n\nopen",
    ),
    ("odp", "opendocument", made.opendocument(_ODP), "## First\n\nsaid\n\nmore"),
    (
        "epub",
        "epub",
        made.epub(
            {
                "one a.xhtml": "<h1>One</h1><p>b<img src='x.png'/></p>",
                "two.xhtml": "<h1>Two</h1><p>c",
            }
        ),
        "# One\n\nb\n\n# Two\n\nc",
    ),
    (
        "ipynb",
        "notebook",
        made.notebook(("markdown", "# Data\ntext"), ("code", "print(1)\n````"), printed="1\n"),
        "# Data\ntext\n\n`````python\nprint(1)\n````\n`````\n\n```text\n1\n```",
    ),
]


@pytest.mark.parametrize(
    ("kind", "data", "text"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_file_becomes_markdown(kind: str, data: bytes, text: str):
    assert read_format(data, kind).text.strip() == text


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("table", b"x" * 200_000),
        ("contacts", b"no card"),
        ("web_archive", b"Content-Type: text/plain\n\nno page"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_refused(kind: str, data: bytes):
    with pytest.raises(FormatError, match="unreadable"):
        read_format(data, kind)


@pytest.mark.parametrize(
    ("kind", "data", "title"),
    [
        ("docx", made.docx(paragraph("x"), title="Yearly report"), "Yearly report"),
        ("docx", made.docx(paragraph("x"), title="Microsoft Word - a.doc"), None),
        (
            "opendocument",
            made.opendocument("<office:text><text:p>x</text:p></office:text>", title="Plan"),
            "Plan",
        ),
        ("epub", made.epub({"a.xhtml": "<p>x"}, title="A book"), "A book"),
        ("calendar", calendar(EVENT), "Weir, spring"),
        ("calendar", calendar(TASK + EVENT), "Brook"),
        ("pdf", pdf([[Text("x")]], title="A  paper"), "A paper"),
        (
            "pdf",
            pdf([[Text("On Cats", size=20, y=720), Text("They sleep all day long.")]]),
            "On Cats",
        ),
        (
            "pdf",
            pdf([[Text("Why", size=20, y=740), Text("Cats", size=20, y=720), Text("They sleep.")]]),
            "Why Cats",
        ),
        (
            "pdf",
            pdf(
                [
                    [
                        Text("stamp", 30, 20, 400, True),
                        Text("On Cats", 20),
                        Text("They sleep.", y=600),
                    ]
                ]
            ),
            "On Cats",
        ),
        (
            "pdf",
            pdf(
                [
                    [
                        Text("them.", 21, y=730),
                        Text("On Cats*", 20),
                        Text("Version 2", 20, y=660),
                        Text("They sleep all day long."),
                    ]
                ],
                "12-3",
            ),
            "On Cats",
        ),
        (
            "pdf",
            pdf([[Text("They sleep."), Text("Large foot", size=20, y=100)]], title="Contents"),
            None,
        ),
        ("pdf", pdf([[Text("1 Cats", size=20), Text("They sleep all day long.", y=600)]]), None),
    ],
)
def test_the_title_is_of_the_properties_unless_a_program_made_it(
    kind: str, data: bytes, title: str | None
):
    assert read_format(data, kind).title == title


@pytest.mark.parametrize(
    ("kind", "data", "times"),
    [
        (
            "docx",
            made.docx(paragraph("x"), created="2024-05-06T07:08:09Z"),
            ("2024-05-06T07:08:09Z", None),
        ),
        (
            "pdf",
            pdf([[Text("x")]], created="D:20240506070809+02'00"),
            ("2024-05-06T07:08:09+02:00", None),
        ),
        ("pdf", pdf([[Text("x")]], created="last week"), (None, None)),
        ("calendar", calendar(EVENT), ("2026-11-28T10:00:00+01:00", None)),
        ("calendar", calendar(EVENT.replace("20261128T100000", "soon")), (None, None)),
    ],
)
def test_times_are_those_of_the_properties(
    kind: str, data: bytes, times: tuple[str | None, str | None]
):
    read = read_format(data, kind)
    assert (read.created, read.modified) == times


def test_each_event_of_a_calendar_is_a_document_and_a_series_is_one():
    data = (Path(__file__).parent / "files/team.ics").read_bytes()
    files = separated([RawFile("a/team.ics", data, converted=read_format(data, "calendar"))])
    rows = read_documents(
        files, source="s", partition="p", settings=DocumentSettings()
    ).documents.to_pylist()
    paths = ["2026-01-12 Buy rope.ics", "open_day@example.org.ics", "weekly-7@example.org.ics"]
    assert [row["path"] for row in rows] == [f"a/team/{path}" for path in paths]
    times = [f"{row['title']} {row['created_at']:%m-%d %H:%M}" for row in rows]
    assert times == [
        "Buy rope 01-12 00:00",
        "Open day 03-01 00:00",
        "Weekly sluice meeting 01-05 09:00",
    ]
    facts = [json.loads(row["frontmatter"]) for row in rows]
    assert facts[1] == {"when": "2026-03-01 to 2026-03-02", "status": "cancelled"}
    assert facts[2]["organizer"] == "Ada Lee <ada@example.org>"
    assert facts[2]["with"] == "Bo Ek <bo@example.org>"
    assert facts[2]["when"] == "2026-01-05 10:00 Europe/Berlin to 2026-01-05 10:30 Europe/Berlin"
    moved = "## Weekly sluice meeting (moved)\n\nWhen: 2026-01-20 14:00 Europe/Berlin to 2026-01-20 14:30 Europe/Berlin"
    assert f"{moved}  \nInstead of: 2026-01-19 10:00 Europe/Berlin" in rows[2]["text"]


ZONE = (
    "BEGIN:VTIMEZONE\nTZID:Own/Zone\nBEGIN:STANDARD\nDTSTART:19701025T030000\n{}TZOFFSETFROM:+0300\n"
    "TZOFFSETTO:+0200\nEND:STANDARD\nBEGIN:DAYLIGHT\nDTSTART:19700329T020000\n"
    "RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU\nTZOFFSETFROM:+0200\nTZOFFSETTO:+0300\nEND:DAYLIGHT\nEND:VTIMEZONE\n"
)
RULES = {
    "RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU": ("+02:00", []),
    "RRULE:FREQ=SECONDLY": ("+03:00", ["time_zone_rule: Own/Zone"]),
    "EXRULE:FREQ=MINUTELY": ("+03:00", ["time_zone_rule: Own/Zone"]),
    "RRULE:FREQ=YEARLY;BYSECOND=1,2": ("+03:00", ["time_zone_rule: Own/Zone"]),
    "RRULE:FREQ=YEARLY;INTERVAL=0": ("+03:00", ["time_zone_rule: Own/Zone"]),
    f"RRULE:FREQ=YEARLY;BYMONTHDAY={','.join(map(str, range(1, 29)))}": (
        "+03:00",
        ["time_zone_rule: Own/Zone"],
    ),
}


@pytest.mark.parametrize(("rule", "outcome"), RULES.items(), ids=RULES)
def test_rules_of_time_zones_are_followed_if_they_have_few_onsets(
    rule: str, outcome: tuple[str, list[str]]
):
    event = EVENT.replace("Europe/Berlin", "Own/Zone")
    read = read_format(calendar(ZONE.format(f"{rule}\n") + event), "calendar")
    assert (read.created, read.defects) == (f"2026-11-28T10:00:00{outcome[0]}", outcome[1])
    alone = read_format(calendar(event), "calendar")
    assert alone.created == "2026-11-28T10:00:00", "no other file lends it a time zone"


def test_a_time_zone_of_fifty_rules_by_the_second_takes_no_time():
    part = "BEGIN:STANDARD\nDTSTART:19700101T000000\nRRULE:FREQ=SECONDLY\nTZOFFSETFROM:+0100\nTZOFFSETTO:+0200\n"
    zone = f"BEGIN:VTIMEZONE\nTZID:Own/Zone\n{f'{part}END:STANDARD{chr(10)}' * 50}END:VTIMEZONE\n"
    read = read_format(
        calendar(zone + EVENT.replace("Europe/Berlin", "Own/Zone") * 100), "calendar"
    )
    assert read.created == "2026-11-28T10:00:00+02:00"
    assert read.defects == ["time_zone_rule: Own/Zone"]


def pages(data: bytes) -> list[str]:
    made = pdf_markdown(data)
    assert made.page_starts is not None
    ends = [*made.page_starts[1:], len(made.text.encode())]
    return [
        made.text.encode()[a:b].decode().strip()
        for a, b in zip(made.page_starts, ends, strict=True)
    ]


def test_pages_of_a_pdf_have_headings_of_the_outline_and_no_running_heads():
    words = ("one", "two", "three", "four", "five")
    book = [page_of(f"{n} Über", *words, number=n, head=f"A Book {n}") for n in range(1, 5)]
    text = "\n".join(words)
    assert pages(
        pdf(book, title="A Book", outline=[("Über", 0), ("3 Über", 2), ("No print", 3)])
    ) == [
        f"A Book 1\n\n## 1 Über\n\n{text}",
        f"2 Über\n{text}",
        f"## 3 Über\n\n{text}",
        f"## No print\n\n4 Über\n{text}",
    ]


def test_without_an_outline_large_lines_are_headings():
    body = [Text(f"line {n} of many words", y=600 - 12 * n) for n in range(12)]
    page = [Text("Chapter", size=20, y=740), Text("Section", size=14, y=640), *body]
    assert pages(pdf([page]))[0].startswith(
        "## Chapter\n\n### Section\n\nline 0 of many words\nline 1 of"
    )
    first = [Text("A Book", size=25, y=700), Text("Ann Lee", size=16, y=670), *page]
    book = pages(pdf([first, page, page, page], outline=[("Chapter", 0)]))
    assert book[0].split("\n\n")[:4] == ["### A Book", "Ann Lee", "## Chapter", "#### Section"]


def test_rows_of_a_table_are_lines_and_markup_is_text():
    rows = [("Name", "Sum"), ("# apples", "3"), ("<!-- pears", "4")]
    lines = [
        Text(t, x=72 + 100 * c, y=700 - 12 * r)
        for r, row in enumerate(rows)
        for c, t in enumerate(row)
    ]
    assert pages(pdf([lines])) == ["Name Sum\n\\# apples 3\n\\<!-- pears 4"]


def columns_of(*columns: Sequence[str]) -> list[Text]:
    """A page whose text goes down one column after the other."""
    places = [(text, c, r) for c, column in enumerate(columns) for r, text in enumerate(column)]
    return [Text(text, x=72 + 200 * c, y=700 - 12 * r) for text, c, r in places]


def test_a_table_that_is_written_column_by_column_is_read_by_rows():
    table = columns_of(
        ("Name", "apples", "pears"), ("Sum", "300", "450"), ("Price", "1.50", "2.75")
    )
    assert pages(pdf([table])) == ["Name | Sum | Price\napples | 300 | 1.50\npears | 450 | 2.75"]


def test_columns_of_prose_are_read_one_after_the_other():
    left = [f"the left column of this page says {n}" for n in range(3)]
    right = [f"and the right column of it says {n}" for n in range(3)]
    assert pages(pdf([columns_of(left, right)])) == ["\n".join([*left, "", *right])]


def test_bold_lines_that_stand_alone_are_headings():
    page = [
        Text("NAME", y=700, bold=True),
        Text("cat, an animal of the house", y=688),
        Text("WARNING", y=664, bold=True),
        Text("Bold words that end a sentence.", y=640, bold=True),
        Text("It scratches whoever comes", y=628),
        Text("within", y=616, bold=True),
        Text("reach, and does not say", y=604),
        Text("so before.", y=592),
        Text("2 Cats 13", y=568, bold=True),
        *(Text(f"line {n}", y=556 - 12 * n) for n in range(9)),
    ]
    (text,) = pages(pdf([page]))
    assert [line for line in text.splitlines() if line.startswith("#")] == ["## NAME"]


def test_words_whose_glyphs_are_apart_are_parted_and_spaced_letters_are_not():
    any_other = [Text("any"), Text("other and more", x=90.1)]
    assert pages(pdf([any_other])) == ["any other and more"]
    assert pages(pdf([[Text("o\x0eces o\x1eces")]])) == ["offices offices"]
    spaced = [Text(letter, x=72 + 7.2 * at) for at, letter in enumerate("aboob")]
    assert pages(pdf([spaced])) == ["aboob"]


def test_a_long_pdf_says_the_page_of_each_text():
    texts = pages(pdf([[Text(f"This page has door number {n}.")] for n in range(1, 301)]))
    assert len(texts) == 300 and texts[298] == "This page has door number 299."


@pytest.mark.parametrize("text", ["# a", "===", "```", "> a", "<div>", "[a]: b", "---"])
def test_a_line_that_is_markup_gets_a_backslash(text: str):
    assert plain(f"a\n{text}\nb - c") == f"a\n\\{text}\nb - c"


def test_scans_are_read_by_ocr_and_named_without():
    scan = picture("x", kind="JPEG")
    mixed = pdf([[Text("A page with a text layer of its own")], scan])
    without = pdf_markdown(mixed)
    assert without.defects == ["no_text_layer: pages 2; set documents.ocr to read them"]
    both = pdf_markdown(mixed, lambda page: "# scanned" if page.startswith(b"P5") else "")
    text = "A page with a text layer of its own\n\n\\# scanned\n\n"
    assert (both.text, both.page_starts) == (text, [0, 37])
    with pytest.raises(
        FormatError, match="no_text: its 1 pages have no text layer; set documents.ocr"
    ):
        pdf_markdown(pdf([scan]))


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        ("pdf", b"%PDF-1.4\nnothing", "unreadable"),
        ("docx", b"no zip", "unreadable"),
        ("docx", made.zipped({"a": "b"}), "unreadable"),
        ("docx", made.docx(paragraph("")), "no_text"),
        ("sheet", b"a,b", "unreadable"),
        ("epub", made.zipped({"META-INF/container.xml": "<a/>"}), "unreadable"),
        ("notebook", b"[1]", "unreadable"),
        ("opendocument", made.zipped({"content.xml": "<a>&b;</a>"}), "unreadable"),
        ("picture", b"\x89PNG", "needs_ocr"),
        ("calendar", b"BEGIN:VCALENDAR\n:::", "unreadable"),
        ("calendar", calendar(""), "no_text"),
        ("calendar", calendar(EVENT)[:-14], "unreadable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_says_why(kind: str, data: bytes, reason: str):
    with pytest.raises(FormatError, match=f"^{reason}: "):
        read_format(data, kind)


@pytest.mark.parametrize(
    ("kind", "side"), [("PNG", 900), ("JPEG", 900), ("BMP", 900), ("PNG", 2000)]
)
def test_a_picture_that_is_seen_is_kept_small_and_needs_no_text(kind: str, side: int):
    written = io.BytesIO()
    Image.new("RGB", (side, 300), "navy").save(written, kind)
    read = read_format(written.getvalue(), "picture", seen_pixels=0)
    assert read.text.strip() == f"Picture of {side} × 300 pixels"
    seen = picture_of(read.picture or "")
    assert seen is not None
    with Image.open(io.BytesIO(seen.data)) as small:
        assert seen.media_type == f"image/{(small.format or '').lower()}"
        assert small.convert("RGB").getpixel((5, 5)) == pytest.approx((0, 0, 128), abs=4)
        is_kept = kind in ("PNG", "JPEG") and side == 900
        assert (seen.data == written.getvalue(), small.width) == (
            (True, 900) if is_kept else (False, 768)
        )


def test_a_seen_picture_has_the_text_that_ocr_finds_and_a_clear_one_a_white_ground():
    written = io.BytesIO()
    Image.new("RGBA", (2000, 10), (0, 0, 0, 0)).save(written, "PNG")
    read = read_format(written.getvalue(), "picture", lambda _: "a queue", seen_pixels=0)
    seen = picture_of(read.picture or "")
    assert read.text.strip() == "a queue" and seen is not None
    with Image.open(io.BytesIO(seen.data)) as small:
        assert small.getpixel((5, 1)) == (255, 255, 255)
    assert read_format(picture("x"), "picture", lambda _: "a queue").picture is None
