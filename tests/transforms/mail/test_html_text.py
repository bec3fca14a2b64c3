"""HTML of mails as text: tables of values, pictures, and what of both says nothing."""

import pytest

from transforms.mail.html_text import html_text

OUTLOOK_CELL = "<td style='border:solid'><p class=MsoNormal>{}</p></td>"


def row(*cells: str) -> str:
    return "<tr>" + "".join(OUTLOOK_CELL.format(cell) for cell in cells) + "</tr>"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (
            f"<p>Sales:</p><table>{row('Year', 'Doors')}{row('2001', '12<br>or 13')}</table><p>Bye",
            "Sales:\n\nYear | Doors\n2001 | 12 or 13\n\nBye\n",
        ),
        ("<table><tr><td>Hello<br>there</td></tr></table>", "Hello\nthere\n"),
        ("<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>", "a b\nc d\n"),
        (
            "<table><tr><td><table><tr><td>a<td>b<tr><td>c<td>d</table><td>right</table>",
            "a | b\nc | d\n\nright\n",
        ),
        (
            f"<table>{row('a', '<div><pre>x</pre></div>')}{row('c', 'd')}</table><p>One <b>line</b>\nmore",
            "a | x\nc | d\n\nOne line more\n",
        ),
        ("See <img alt='a chart of sales'> <img alt='😀'>", "See [a chart of sales] 😀\n"),
        ("<img alt=image001.png><img alt=''><img alt='read' width=1 height=1><img>Hi", "Hi\n"),
        (
            "<pre>@@ -1 +1 @@\n<span>-old</span>\n<span>+new</span></pre>",
            "@@ -1 +1 @@\n-old\n+new\n",
        ),
        (
            "<p>door.c<table><tr class=hunk><td colspan=3>@@ -1,2 +1,2 @@</td></tr>"
            "<tr><td>1</td><td>1</td><td class=line_content><pre> int</pre></td></tr>"
            "<tr><td>2</td><td></td><td class='line_content old'><pre>-  shut();</pre></td></tr>"
            "<tr><td></td><td>2</td><td class='line_content new'><pre>+  open();</pre></td></tr></table>Why?",
            "door.c\n\n@@ -1,2 +1,2 @@\n int\n-  shut();\n+  open();\n\nWhy?\n",
        ),
        (
            "<table><tr><td>7<td>7<td>a</tr><tr><td>8<td><td class=blob-code-deletion>  b</tr>"
            "<tr><td><td>8<td class=blob-code-addition>  c</tr></table>",
            " a\n-  b\n+  c\n",
        ),
        ("<table><tr><td>1<td>2001</tr><tr><td>2<td>-</table>", "1 | 2001\n2 | -\n"),
        (f"{'<div>' * 600}a</div>b<div>c{'</div>' * 600}", "a\nb\nc\n"),  # nested too deep
        (f"<p>{'<b>' * 600}a</b> b<i>c", "a bc\n"),
        (f"<div {' '.join(f'a{n}=b' for n in range(600))} style=display:none>a</div>b", "a\nb\n"),
    ],
)
def test_the_text_of_a_mails_html(markup: str, text: str):
    assert html_text(markup) == text
