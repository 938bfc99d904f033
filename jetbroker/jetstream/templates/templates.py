"""The stream templates of one account, as nats-server had them until 2.12.

A template makes a stream for each new subject that it matches, named after the subject. The messages that come until
the stream is on disk wait here, and are the first ones it takes. The link from a stream to its template is part of the
stream's description on disk; a template is a document of its own.
"""

import time
from dataclasses import replace
from functools import partial

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.models.config import StreamTemplateConfig
from jetbroker.jetstream.models.decode import DecodeError
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.stream_config import check_creation, check_stream_config
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.jetstream.templates.catcher import Catcher, hand_over, stream_name
from jetbroker.routing.subscription import Subscription
from jetbroker.turns import in_turns

_STAND_IN = "_"  # the name of the configuration within a template


class Template:
    """One template. `names`: its streams; `making`: how many more are on their way."""

    def __init__(self, config: StreamTemplateConfig) -> None:
        self.config = config
        self.names: set[str] = set()
        self.making = 0
        self.subscriptions: list[Subscription] = []

    @property
    def is_full(self) -> bool:
        """May it make no more streams?"""
        return len(self.names) + self.making >= self.config.max_streams


class _Arrival:
    """The first messages of a subject, until its stream takes them (an account.Owner)."""

    def __init__(self, template: Template, subject: bytes) -> None:
        self.owner = template
        self.template = template.config.name
        self.subject = subject
        self.messages: list[tuple[bytes | None, bytes, bytes]] = []
        self.size = 0
        self.is_over = False  # the stream itself gets what comes

    def begun(self, stream: Stream) -> None:
        """The stream has subscribed: what waits comes before what it gets now."""
        self.is_over = True
        hand_over(stream, self.subject, self.messages)
        self.messages = []


class Templates:
    """Makes streams for what arrives, and forgets the streams that are deleted."""

    def __init__(self, js: JetStream) -> None:
        self._js = js
        self._log = js.log
        self._templates: dict[str, Template] = {}
        self._arrivals: dict[bytes, _Arrival] = {}
        self._waiting_bytes = 0
        self._refused: dict[bytes, float] = {}  # subjects that got no stream, and when to try again
        self._told_at = 0.0

    # --- life ---

    def start(self) -> None:
        """Take up what is stored; the account's streams are there."""
        if not self._js.enabled:
            return
        for document in self._js.store.templates(self._js.account_name):
            try:
                config = StreamTemplateConfig.from_json(document)
            except DecodeError as error:
                self._log.warn(f"Stream template {quoted(str(document['name']))} is left alone: {error}")
            else:
                self._enter(Template(config))
        for stream in self._js.streams.values():
            if self.owns(stream):
                self._templates[stream.template].names.add(stream.name)

    def stop(self) -> None:
        """Make no more streams."""
        for template in self._templates.values():
            self._leave(template)

    def _enter(self, template: Template) -> None:
        self._templates[template.config.name] = template
        self._refused.clear()
        catcher = Catcher(self._js.host.tick, self._js.streams, partial(self._take, template))
        router = self._js.host.router
        template.subscriptions = [
            router.subscribe(catcher, subject.encode()) for subject in template.config.stream_config.subjects
        ]

    def _leave(self, template: Template) -> None:
        for subscription in template.subscriptions:
            self._js.host.router.unsubscribe(subscription)
        template.subscriptions = []

    # --- requests ---

    async def create(self, config: StreamTemplateConfig) -> Template:
        """A new template. Raises ApiError."""
        config = await self._checked(config)
        try:
            if config.stream_config.storage == "file":
                await self._js.store.write_template(self._js.account_name, config.name, config.to_json())
        except StorageError as error:
            raise api_error("stream_template_create", err=str(error)) from error
        template = Template(config)
        self._enter(template)
        return template

    async def _checked(self, config: StreamTemplateConfig) -> StreamTemplateConfig:
        if config.config is None:
            raise api_error("stream_template_create", err="template config is required")
        if config.config.name:
            raise api_error("stream_template_create", err="template config name should be empty")
        if len(config.name.encode()) > limits.JS_NAME_BYTES:
            text = f"template name is too long, maximum allowed is {limits.JS_NAME_BYTES}"
            raise api_error("stream_template_create", err=text)
        if config.max_streams > limits.JS_TEMPLATE_STREAMS:
            text = f"template max streams can not be larger than {limits.JS_TEMPLATE_STREAMS}"
            raise api_error("stream_template_create", err=text)
        wanted = replace(config.config, name=_STAND_IN)
        check_creation(wanted)
        js = self._js
        checked = await in_turns(check_stream_config(wanted, js.usage.limits, find_stream=js.config_of))
        if config.name in self._templates:
            text = f"template with name {quoted(config.name)} already exists"
            raise api_error("stream_template_create", err=text)
        if len(self._templates) >= limits.JS_TEMPLATES:
            raise api_error("stream_template_create", err=f"an account has at most {limits.JS_TEMPLATES} templates")
        return replace(config, config=checked)

    def names(self) -> list[str]:
        """Those of all templates, sorted."""
        return sorted(self._templates)

    def find(self, name: str) -> Template:
        """The template of this name. Raises ApiError 10068."""
        template = self._templates.get(name)
        if template is None:
            raise api_error("stream_template_not_found")
        return template

    async def delete(self, name: str) -> None:
        """Delete a template and its streams. Raises ApiError; then it makes no streams, and may be deleted again."""
        template = self.find(name)
        self._leave(template)
        for stream in sorted(template.names):
            if stream in self._js.streams:
                await self._js.delete_stream(stream)
        try:
            if template.config.stream_config.storage == "file":
                await self._js.store.remove_template(self._js.account_name, name)
        except StorageError as error:
            raise api_error("stream_template_delete", err=str(error)) from error
        del self._templates[name]

    async def delete_all(self) -> None:
        """As delete, of all."""
        for name in self.names():
            await self.delete(name)

    # --- streams ---

    def owns(self, stream: Stream) -> bool:
        """Is the stream one of a template that is there?"""
        return stream.template in self._templates

    def left(self, stream: Stream) -> None:
        """A stream is being deleted: there is room for another one."""
        self._refused.clear()
        if self.owns(stream):
            self._templates[stream.template].names.discard(stream.name)

    def _take(self, template: Template, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes) -> None:
        """A message whose subject has no stream; nothing is changed before whoever delivers it is done."""
        arrival = self._arrivals.get(subject) or self._begin(template, subject)
        if arrival is None or arrival.owner is not template or arrival.is_over:
            return
        size = len(headers) + len(payload) + limits.JS_API_REQUEST_BYTES
        if self._waiting_bytes + size > limits.JS_TEMPLATE_WAITING_BYTES:
            self._tell(subject, "too many messages wait for their streams")
            return
        arrival.messages.append((reply, headers, payload))
        arrival.size += size
        self._waiting_bytes += size

    def _begin(self, template: Template, subject: bytes) -> _Arrival | None:
        if template.is_full:
            self._tell(subject, "at limit")
            return None
        if not subject.isascii() and any("\udc80" <= one <= "\udcff" for one in stream_name(subject)):
            self._tell(subject, "the subject is not UTF-8")
            return None
        if self._refused.get(subject, 0.0) > time.monotonic() or len(self._arrivals) >= limits.JS_TEMPLATE_STREAMS:
            return None
        arrival = self._arrivals[subject] = _Arrival(template, subject)
        template.making += 1
        self._js.requests.add_change(lambda: self._make(arrival))
        return arrival

    async def _make(self, arrival: _Arrival) -> None:
        try:
            await self._make_stream(arrival)
        except ApiError as error:
            if len(self._refused) >= limits.JS_TEMPLATE_STREAMS:
                self._refused.clear()
            self._refused[arrival.subject] = time.monotonic() + limits.JS_TEMPLATE_RETRY_SECONDS
            self._tell(arrival.subject, error.description)
        finally:
            arrival.owner.making -= 1
            self._waiting_bytes -= arrival.size
            del self._arrivals[arrival.subject]

    async def _make_stream(self, arrival: _Arrival) -> None:
        template = arrival.owner
        name = stream_name(arrival.subject)
        if name in self._js.streams or not template.subscriptions:  # made or deleted meanwhile
            return
        subject = arrival.subject.decode("utf-8", "surrogateescape")
        config = replace(template.config.stream_config, name=name, subjects=[subject])
        await self._js.create_stream(config, owner=arrival)
        template.names.add(name)

    def _tell(self, subject: bytes, why: str) -> None:
        """Now and then: publishers decide how often it happens."""
        now = time.monotonic()
        if now - self._told_at >= limits.JS_TEMPLATE_REPORT_SECONDS:
            self._told_at = now
            who = f"account {quoted(self._js.account_name)} on subject {quoted(subject)}"
            self._log.warn(f"JetStream could not create stream for {who}, {why}")
