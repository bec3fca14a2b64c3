"""AsciiDoc to Markdown by the program Asciidoctor, one process for many documents, in its mode for
strangers' text.

Its safe mode `secure` reads no other file: a directive that would include one becomes a link to it.
"""

import json
import math
import shutil
import subprocess
from functools import cache
from pathlib import Path

from transforms.formats.converted import Converted, FormatError, own_title, plain
from transforms.formats.html_markdown import html_markdown
from transforms.text.charsets import decode_text

_SCRIPT = Path(__file__).with_suffix(".rb")
NO_ASCIIDOCTOR = (
    "needs_program: AsciiDoc is read as text; install Asciidoctor (apt install asciidoctor)"
)
"""The reason and the remedy, as a defect of a document says them."""


def asciidoc_markdown(data: bytes, seconds: float) -> Converted:
    """A document as Markdown, the attributes of its header as `fields`; plain text with a defect
    without the program.

    FormatError if Asciidoctor, in so many seconds of the processor, cannot read it.
    """
    decoded = decode_text(data, None)
    if decoded.had_nul:
        raise FormatError("binary: there is a NUL byte in it")
    defects = [] if decoded.outcome == "utf-8" else [f"charset_{decoded.outcome}"]
    if not (program := shutil.which("asciidoctor")):
        return Converted(plain(decoded.text), [*defects, NO_ASCIIDOCTOR])
    process, text = _started(program), decoded.text.encode()
    assert process.stdin and process.stdout
    process.stdin.write(b"%d %d\n" % (len(text), math.ceil(seconds)) + text)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if not (converted := None if "fault" in answer else html_markdown(answer["html"])):
        raise FormatError(
            f"unreadable: asciidoctor cannot convert it: {answer.get('fault', 'no Markdown')}"
        )
    fields = {name: value for name, value in answer["fields"].items() if isinstance(value, str)}
    title, revised = own_title(fields.get("title")), fields.get("revdate")
    return converted._replace(
        defects=defects + converted.defects, title=title, modified=revised, fields=fields
    )


@cache
def _started(program: str) -> subprocess.Popen[bytes]:
    """The process of this one's files: it ends with it, and this one if that one fails."""
    command = [program, "--require", str(_SCRIPT), "-"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
