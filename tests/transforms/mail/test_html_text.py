"""HTML of mails as text: tables of values, pictures, and what of both says nothing."""

from __future__ import annotations

import pytest

from transforms.mail.html_text import html_text

OUTLOOK_CELL = "<td style='border:solid'><p class=MsoNormal>{}</p></td>"


def row(*cells: str) -> str:
    return "<tr>" + "".join(OUTLOOK_CELL.format(cell) for cell in cells) + "</tr>"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (f"<p>Sales:</p><table>{row('Year', 'Doors')}{row('2001', '12<br>or 13')}</table><p>Bye",
         "Sales:\n\nYear | Doors\n2001 | 12 or 13\n\nBye\n"),
        ("<table><tr><td>Hello<br>there</td></tr></table>", "Hello\nthere\n"),
        ("<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>", "a b\nc d\n"),
        ("<table><tr><td><table><tr><td>a<td>b<tr><td>c<td>d</table><td>right</table>", "a | b\nc | d\n\nright\n"),
        (f"<table>{row('a', '<div><pre>x</pre></div>')}{row('c', 'd')}</table><p>One <b>line</b>\nmore",
         "a | x\nc | d\n\nOne line more\n"),
        ("See <img alt='a chart of sales'> <img alt='😀'>", "See [a chart of sales] 😀\n"),
        ("<img alt=image001.png><img alt=''><img alt='read' width=1 height=1><img>Hi", "Hi\n"),
        ("<pre>@@ -1 +1 @@\n<span>-old</span>\n<span>+new</span></pre>", "@@ -1 +1 @@\n-old\n+new\n"),
    ],
)  # fmt: skip
def test_the_text_of_a_mails_html(markup: str, text: str):
    assert html_text(markup) == text
