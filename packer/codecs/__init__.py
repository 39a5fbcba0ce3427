"""How a picture's pixels become bytes in a shard and come back: one file a codec.

Each module has

    EXTENSION: str                   the member's extension in tar shards
    KIND: str                        what `packer.imaging.sniff` calls such bytes ("" = none)
    encode(pixels, options) -> bytes               Pixels, ImageOptions
    decode(payload, width, height) -> Pixels       of the stored size; raises ImageError
    file_header(width, height) -> bytes            what turns a payload into a file of its own
    accepts(head, options) -> bool                 may these coded bytes be stored as they are?
    strip(data) -> bytes                           coded bytes without metadata

`tests/codecs/test_conformance.py` holds every codec that is here to the same rules.
"""
