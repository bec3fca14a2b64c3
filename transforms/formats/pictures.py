"""Pictures and scans to Markdown, by OCR."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator

from PIL import Image, ImageSequence, UnidentifiedImageError

from transforms.formats.converted import Converted, FormatError, paged, plain
from transforms.formats.pdf import Ocr, pnm

_MAX_PIXELS = 200_000_000
"""Pixels of a picture that is opened, all of its pages together: 200 MB in grey."""
_BROKEN = (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError)


def picture_markdown(data: bytes, ocr: Ocr | None) -> Converted:
    """The text in a picture, each picture of a TIFF a page; FormatError without OCR, without text, or if it is a bomb."""
    if ocr is None:
        raise FormatError("needs_ocr: it is a picture; set documents.ocr to read it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data)) as image:
                texts = [plain(ocr(picture)) for picture in _pictures(image)]
        except Image.DecompressionBombError as error:
            raise FormatError(f"compression_bomb: {error}") from error
        except _BROKEN as error:
            raise FormatError(f"unreadable: it is no picture ({error})") from error
    if not any(text.strip() for text in texts):
        raise FormatError("no_text: OCR finds no text in it")
    converted = paged(texts, [], None)
    return converted if len(texts) > 1 else converted._replace(page_starts=None)


def _pictures(image: Image.Image) -> Iterator[bytes]:
    """The frames of a picture, of an animation the first."""
    frames = ImageSequence.Iterator(image) if image.format == "TIFF" else [image]
    pixels = 0
    for frame in frames:
        pixels += frame.width * frame.height
        if pixels > _MAX_PIXELS:
            raise FormatError(f"compression_bomb: {pixels:,} pixels, the cap is {_MAX_PIXELS:,}")
        yield pnm(frame)
