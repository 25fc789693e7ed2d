"""OpenTelemetry's profiles, read by OpenTelemetry's own classes of the messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import ExportProfilesServiceRequest


def request(contents: bytes) -> Any:
    """The message. Raises DecodeError where it is none."""
    return ExportProfilesServiceRequest.FromString(contents)


def texts(message: Message) -> Iterator[str]:
    """All texts of a message, those of the messages in it too."""
    for _, value in message.ListFields():
        is_one = isinstance(value, (str, bytes, int, float, Message))
        for each in [value] if is_one else [value[index] for index in range(len(value))]:
            if isinstance(each, str):
                yield each
            elif isinstance(each, Message):
                yield from texts(each)


def plain_value(value: Any) -> Any:
    """What a message AnyValue holds; lists as lists."""
    kind = value.WhichOneof("value")
    return [plain_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
