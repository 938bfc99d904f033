import mmap

def pages_are_sound(data: bytes | mmap.mmap, page_size: int) -> bool:
    """Does every page of the newest transaction lead to where it may? The meta pages themselves were checked."""
