from packer.types import Pixels

def cut(
    pictures: list[memoryview | None], size: tuple[int, int], corner: tuple[int, int], out: Pixels
) -> bool: ...
