from packer.types import Pixels

MOST_SHRINKING: int

def resize(pixels: Pixels, out: Pixels, mirrored: bool, narrow: bool = False) -> None: ...
