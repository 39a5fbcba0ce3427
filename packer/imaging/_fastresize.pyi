from packer.types import Pixels

MOST_SHRINKING: int

def resize(pixels: Pixels, out: Pixels, mirrored: bool) -> None: ...
