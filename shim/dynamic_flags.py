"""Marks a shared library as one that is initialized first and that dlopen refuses, for linkers that have no options for it.

``python dynamic_flags.py LIBRARY`` does what ``-z initfirst -z nodlopen`` do: it sets two bits of DT_FLAGS_1 (the gABI's
dynamic section). The build calls it where the linker refuses these options (``zig cc``, which `make wheels` uses).
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_PT_DYNAMIC, _DT_FLAGS_1 = 2, 0x6FFFFFFB
_DF_1_INITFIRST, _DF_1_NODLOPEN = 0x20, 0x40


def flagged(image: bytes) -> bytes:
    """The image of a 64-bit little-endian library, with both bits set. Raises ValueError for other files, and if the library
    has no DT_FLAGS_1."""
    if not image.startswith(_ELF64_LITTLE):
        raise ValueError("no 64-bit little-endian ELF file")
    headers_at, size, count = *struct.unpack_from("<Q", image, 32), *struct.unpack_from("<HH", image, 54)
    for at in range(headers_at, headers_at + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", image, at)
        if kind != _PT_DYNAMIC:
            continue
        for entry in range(offset, offset + length, 16):
            tag, value = struct.unpack_from("<QQ", image, entry)
            if tag == _DT_FLAGS_1:
                flags = struct.pack("<Q", value | _DF_1_INITFIRST | _DF_1_NODLOPEN)
                return image[: entry + 8] + flags + image[entry + 16 :]
    raise ValueError("it has no DT_FLAGS_1; -z now makes one")


if __name__ == "__main__":
    library = Path(sys.argv[1])
    library.write_bytes(flagged(library.read_bytes()))
