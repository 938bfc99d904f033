"""Checks of subject transforms as they stand in stream configurations."""

from jetbroker import limits
from jetbroker.jetstream.models.names import valid_stream_subject
from jetbroker.routing.placeholders import TransformError, check_mapping, compile_steps


def transform_fault(src: str, dest: str) -> tuple[bool, str]:
    """(is it the source's fault, text); the text is empty when the transform is good."""
    if src and not valid_stream_subject(src.encode()):
        return True, f"invalid subject {src}"
    if dest.count(".") >= limits.JS_SUBJECT_TOKENS:
        return False, f"invalid subject {dest}"
    try:
        check_mapping(src.encode(), dest.encode())
    except TransformError as error:
        return False, str(error)
    return False, ""


def can_republish(src: str, dest: str) -> bool:
    """Is it a transform? What its results are is looked at before they are published."""
    if not dest:
        return True
    if max(src.count("."), dest.count(".")) >= limits.JS_SUBJECT_TOKENS:
        return False
    try:
        compile_steps(src.encode(), dest.encode(), False)
    except TransformError:
        return False
    return True
