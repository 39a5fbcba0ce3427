from packer.types import Pixels

def decode(
    payload: bytes | memoryview,
    out: Pixels,
    size: tuple[int, int],
    corner: tuple[int, int],
    divisor: int,
    fast: bool,
) -> bool: ...
