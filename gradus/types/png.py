"""Writes pictures as PNG files and as data URIs; no other package is needed. Equal pictures give equal bytes."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from gradus.types.media import Media


def png(picture: np.ndarray) -> bytes:
    """Returns the bytes of a PNG file with the picture uint8 [height, width, 3]."""
    height, width, _ = picture.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), np.ascontiguousarray(picture).reshape(height, 3 * width)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, colours, no interlace
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks)


def data_uri(media: Media) -> str:
    """A picture, or the first frame of a video, as a data URI that a browser shows. Raises ValueError for other media."""
    if media.kind not in ("image", "video"):
        raise ValueError(f"{media.kind} media is not a picture; give an image or a video")
    picture = media.array if media.kind == "image" else media.array[0]
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()
