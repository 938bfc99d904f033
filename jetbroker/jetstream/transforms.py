"""Checks of subject transforms as they stand in stream configurations."""

from jetbroker.routing.placeholders import TransformError, check_mapping
from jetbroker.wire.subjects import valid_subject


def transform_fault(src: str, dest: str) -> tuple[bool, str]:
    """(is it the source's fault, text); the text is empty when the transform is good."""
    if src and not valid_subject(src.encode()):
        return True, f"invalid subject {src}"
    try:
        check_mapping(src.encode(), dest.encode())
    except TransformError as error:
        return False, str(error)
    return False, ""
