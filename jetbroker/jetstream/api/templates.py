# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""API handlers: stream templates, for accounts that have them (`tech_preview_api`)."""

from dataclasses import dataclass
from typing import Any

from jetbroker import limits
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import (
    Endpoint,
    PagedRequest,
    Request,
    clip_offset,
    expect_no_body,
    read_body,
    read_optional_body,
)
from jetbroker.jetstream.models.config import StreamTemplateConfig
from jetbroker.jetstream.models.decode import embedded_field
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.templates.templates import Template, Templates


@dataclass
class TemplateNamesRequest:
    """Body of STREAM.TEMPLATE.NAMES."""

    page: PagedRequest = embedded_field(PagedRequest, "ApiPagedRequest")


def template_endpoints(templates: Templates) -> tuple[Endpoint, ...]:
    """The endpoints of an account with these templates."""

    async def create(js: JetStream, request: Request) -> dict[str, Any]:
        config = read_body(js, StreamTemplateConfig, "StreamTemplateConfig", request)
        if config.name != request.tokens[3]:
            raise api_error("template_name_not_match_subject")
        return _template_info(await templates.create(config))

    async def names(js: JetStream, request: Request) -> dict[str, Any]:
        asked = read_optional_body(js, TemplateNamesRequest, "JSApiStreamTemplatesRequest", request)
        found = templates.names()
        offset = clip_offset(asked.page.offset, len(found))
        page = found[offset : offset + limits.JS_NAMES_PAGE]
        return {"total": len(found), "offset": offset, "limit": limits.JS_NAMES_PAGE, "streams": page}

    async def info(js: JetStream, request: Request) -> dict[str, Any]:
        expect_no_body(request.body)
        return _template_info(templates.find(request.tokens[3]))

    async def delete(js: JetStream, request: Request) -> dict[str, Any]:
        expect_no_body(request.body)
        await templates.delete(request.tokens[3])
        return {"success": True}

    page = {"total": 0, "offset": 0, "limit": 0, "streams": None}
    return (
        Endpoint("STREAM.TEMPLATE.CREATE", 4, 4, "stream_template_create", create),
        Endpoint("STREAM.TEMPLATE.NAMES", 3, 3, "stream_template_names", names, page, is_info=True),
        Endpoint("STREAM.TEMPLATE.INFO", 4, 4, "stream_template_info", info, is_info=True),
        Endpoint("STREAM.TEMPLATE.DELETE", 4, 4, "stream_template_delete", delete),
    )


def _template_info(template: Template) -> dict[str, Any]:
    return {"config": template.config.to_json(), "streams": sorted(template.names)}
