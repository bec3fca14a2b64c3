"""Pictures and scans to Markdown, by OCR."""

import io
import warnings
from collections.abc import Iterator

from PIL import Image, ImageSequence, UnidentifiedImageError

from transforms.formats.converted import Converted, FormatError, paged, plain
from transforms.formats.pdf import Ocr, pnm
from transforms.text.visible import Picture, picture_text

_MAX_PIXELS = 200_000_000
"""Pixels of a picture that is opened, all of its pages together: 200 MB in grey."""
_SIDE, _QUALITY = 768, 85
"""Pixels of the longer side of a picture that is embedded, one tile for Gemini's models, and the
quality of its JPEG.
"""
_KEPT_BYTES = 200_000
"""Bytes of a PNG or JPEG up to which it is embedded as it is."""
_BROKEN = (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError)


def picture_markdown(data: bytes, ocr: Ocr | None, seen_pixels: int | None = None) -> Converted:
    """The text in a picture, each picture of a TIFF a page, and with `seen_pixels` the picture
    itself, made small.

    FormatError if it is a bomb or has fewer pixels than these, and, without them, without OCR or
    without text.
    """
    if ocr is None and seen_pixels is None:
        raise FormatError("needs_ocr: it is a picture; set documents.ocr to read it")
    small = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with Image.open(io.BytesIO(data)) as image:
                if image.width * image.height < (seen_pixels or 0):
                    raise FormatError(
                        f"binary: {image.width} × {image.height} pixels are taken for a logo"
                    )
                texts = [plain(ocr(picture)) for picture in _pictures(image)] if ocr else []
                if seen_pixels is not None:
                    size = f"Picture of {image.width} × {image.height} pixels"
                    small = picture_text(_small(image, data))
        except Image.DecompressionBombError as error:
            raise FormatError(f"compression_bomb: {error}") from error
        except _BROKEN as error:
            raise FormatError(f"unreadable: it is no picture ({error})") from error
    if not any(text.strip() for text in texts):
        if small is None:
            raise FormatError("no_text: OCR finds no text in it")
        texts = [size]
    converted = paged(texts, [], None)._replace(picture=small)
    return converted if len(texts) > 1 else converted._replace(page_starts=None)


def _small(image: Image.Image, data: bytes) -> Picture:
    """The first picture, as it is if it is small, else as a JPEG of at most `_SIDE` pixels a side
    on white.
    """
    if (
        image.format in ("PNG", "JPEG")
        and len(data) <= _KEPT_BYTES
        and max(image.size) <= 2 * _SIDE
    ):
        image.load()
        return Picture(f"image/{image.format.lower()}", data)
    if image.width * image.height > _MAX_PIXELS:
        raise FormatError(
            f"compression_bomb: {image.width * image.height:,} pixels, the cap is {_MAX_PIXELS:,}"
        )
    image.seek(0)
    image.draft("RGB", (_SIDE, _SIDE))
    layer = image.convert("RGBA")
    layer.thumbnail((_SIDE, _SIDE))
    page = Image.new("RGB", layer.size, "white")
    page.paste(layer, mask=layer)
    output = io.BytesIO()
    page.save(output, "JPEG", quality=_QUALITY)
    return Picture("image/jpeg", output.getvalue())


def _pictures(image: Image.Image) -> Iterator[bytes]:
    """The frames of a picture, of an animation the first."""
    frames = ImageSequence.Iterator(image) if image.format == "TIFF" else [image]
    pixels = 0
    for frame in frames:
        pixels += frame.width * frame.height
        if pixels > _MAX_PIXELS:
            raise FormatError(f"compression_bomb: {pixels:,} pixels, the cap is {_MAX_PIXELS:,}")
        yield pnm(frame)
