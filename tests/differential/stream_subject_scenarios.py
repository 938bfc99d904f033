"""What a stream does with subjects: transforms and republishing, one conversation each."""

from __future__ import annotations

from typing import Any

from tests.differential.consumer_scenarios import Scenario
from tests.support.jetstream_probe import Inbox, Probe

SOURCE = "Nats-Expected-Last-Subject-Sequence"


async def _subjects(probe: Probe, name: str) -> Any:
    return (await probe.api(f"STREAM.INFO.{name}", {"subjects_filter": ">"}))["state"].get("subjects")


async def _configure(probe: Probe, name: str, **config: Any) -> Any:
    """CREATE, or UPDATE when there is such a stream; the refusal, or how it stands in the configuration."""
    settings = {"name": name, "subjects": [f"{name}.a.>", f"{name}.b.>"], "allow_rollup_hdrs": True, **config}
    answer = await probe.api(f"STREAM.UPDATE.{name}", settings)
    if answer.get("error", {}).get("err_code") == 10059:
        answer = await probe.api(f"STREAM.CREATE.{name}", settings)
    if "error" in answer:
        return answer["error"]
    return {key: answer["config"].get(key) for key in ("subject_transform", "republish")}


async def _publish(probe: Probe, subject: str, payload: bytes = b"x", **headers: str) -> bytes:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    answer: bytes = (await probe.client.request(subject, payload, headers=named or None, timeout=5)).data
    return answer


async def _heard(inbox: Inbox) -> list[Any]:
    """Messages without their time."""
    found = await inbox.rest()
    for _, _, headers, _ in found:
        headers.pop("Nats-Time-Stamp", None)
    return found


async def transform_checks(probe: Probe, name: str) -> Any:
    """Limits and headers look at the transformed subject."""
    seen: list[Any] = [
        await _configure(probe, name, subject_transform={"src": f"{name}.a.*", "dest": "t.{{wildcard(1)}}"})
    ]
    for subject in ("a.1", "b.1", "a.1.2"):
        seen.append(await _publish(probe, f"{name}.{subject}"))
    for sequence, of in (("1", ""), ("1", ""), ("4", "t.1"), ("5", f"{name}.a.1"), ("0", f"{name}.a.1")):
        headers = {SOURCE: sequence} | ({f"{SOURCE}-Subject": of} if of else {})
        seen.append((await probe.client.request(f"{name}.a.1", b"x", headers=headers, timeout=5)).data)
    seen.append(await _publish(probe, f"{name}.a.1", Nats_Msg_Id="i"))
    seen.append(await _publish(probe, f"{name}.a.2", Nats_Msg_Id="i"))
    seen.append(await _publish(probe, f"{name}.a.1", Nats_Rollup="sub"))
    seen.append(await _subjects(probe, name))
    return seen


async def transform_updates(probe: Probe, name: str) -> Any:
    """A transform comes, changes and goes; what it says holds for the next message."""
    seen: list[Any] = []
    for transform in (
        {"src": f"{name}.a.*", "dest": "t.x"}, None, {}, {"src": "", "dest": ""}, {"dest": "q.>"},
        {"src": ">", "dest": ""}, {"src": f"{name}.a.*", "dest": "a..b"},
        {"src": f"{name}.a.*", "dest": "b.{{partition(0,1)}}"}, {"src": f"{name}.a.*", "dest": "b.{{partition(7,1)}}"},
        {"src": "*.a.*.*", "dest": "w.{{split(2,-)}}.{{left(3,2)}}.$1"}, {"src": "zzz", "dest": "yyy"},
        {"src": f"{name}.a.1", "dest": "b.*"}, {"src": "a.>", "dest": "c"}, {"src": f"{name}.a.1", "dest": "c"},
        {"src": f"{name}.b.*", "dest": "{{splitfromleft(1,1)}}"}, {"src": f"{name}.b.*", "dest": "{{split(1,-)}}"},
    ):  # fmt: skip
        extra = {} if transform is None else {"subject_transform": transform}
        seen.append((transform, await _configure(probe, name, max_msgs_per_subject=1, **extra)))
        await probe.api(f"STREAM.PURGE.{name}")
        for subject in ("a.1", "a.-x-.yyy", "b.y-z"):
            seen.append(await _publish(probe, f"{name}.{subject}"))
        seen.append(await _subjects(probe, name))
    return seen


async def transform_reads(probe: Probe, name: str) -> Any:
    """Readers see the stored subject: consumers and their filters, direct gets, purges."""
    await _configure(
        probe, name, allow_direct=True, subject_transform={"src": f"{name}.a.*", "dest": f"{name}T.{{{{wildcard(1)}}}}"}
    )
    for number in range(3):
        await _publish(probe, f"{name}.a.{number}", b"m%d" % number)
    await probe.consumer(name, "c", filter_subject=f"{name}T.1")
    await probe.consumer(name, "d", filter_subject=f"{name}.a.1")
    seen: list[Any] = [await (await probe.pull(name, one, {"batch": 5, "no_wait": True})).rest() for one in "cd"]
    got = await probe.client.request(f"$JS.API.DIRECT.GET.{name}.{name}T.2", b"", timeout=5)
    seen.append(got.data)
    seen.append(await probe.api(f"STREAM.PURGE.{name}", {"filter": f"{name}T.2"}))
    seen.append(await _subjects(probe, name))
    return seen


async def republished(probe: Probe, name: str) -> Any:
    """What is sent for each stored message."""
    seen: list[Any] = [await _configure(probe, name, republish={"src": ">", "dest": f"re.{name}.>"})]
    inbox = await probe.inbox(f"re.{name}.>")
    await _publish(probe, f"{name}.a.1", b"one")
    await _publish(probe, f"{name}.a.1", b"two", H="v", Nats_Msg_Id="i")
    await _publish(probe, f"{name}.a.1", b"two", Nats_Msg_Id="i")
    await _publish(probe, f"{name}.b.1", b"")
    seen.append(await _heard(inbox))
    seen.append(
        await _configure(probe, name, republish={"src": f"{name}.a.1", "dest": f"re.{name}", "headers_only": True})
    )
    single = await probe.inbox(f"re.{name}")
    await _publish(probe, f"{name}.a.1", b"four", K="v")
    await _publish(probe, f"{name}.a.2", b"five")
    await _publish(probe, f"{name}.a.1", b"", Nats_Rollup="sub")
    seen += [await _heard(single), await _heard(inbox)]
    seen.append(await _configure(probe, name))
    await _publish(probe, f"{name}.a.1")
    seen += [await _heard(single), await _heard(inbox)]
    return seen


async def republish_destinations(probe: Probe, name: str) -> Any:
    """Which are refused, and where messages go."""
    seen: list[Any] = [await _configure(probe, name)]
    inbox = await probe.inbox(f"re.{name}.>")
    inside = await probe.inbox(f"{name}.>")
    for republish in (
        {"src": f"{name}.a.*", "dest": f"{name}.a.{{{{wildcard(1)}}}}"}, {"src": ">", "dest": ">"},
        {"src": f"{name}.a.*", "dest": f"re.{name}.*"}, {"src": f"{name}.a.*", "dest": f"re.{name}.$1"},
        {"src": f"{name}.a.*", "dest": f"re.{name}.{{{{partition(3, 1)}}}}"}, {"src": "a..", "dest": "b"},
        {"src": "zz.*", "dest": "b"}, {"dest": f"re.{name}.>"}, {"src": f"{name}.a.*", "dest": "b..c"},
        {"src": "q.>", "dest": "r"}, {"src": f"{name}.a.*", "dest": f"{name}.c.{{{{wildcard(1)}}}}"},
        {"src": f"{name}.a.*", "dest": f"re.{name}.{{{{split(1,-)}}}}"},
        {"src": f"{name}.a.*", "dest": f"re.{name}.{{{{left(1,3)}}}}"},
        {"src": f"{name}.*.*", "dest": f"re.{name}.{{{{right(2,3)}}}}.{{{{left(1,1)}}}}"},
        {"src": f"{name}.a.*", "dest": f"re.{name}.a b"}, {"src": f"{name}.a b", "dest": f"re.{name}.c"},
        {"src": f"{name}.a.7", "dest": f"re.{name}.uno\r\nPUB {name}.hijack 2\r\nhi\r\n"},
    ):  # fmt: skip
        seen.append((republish, await _configure(probe, name, republish=republish)))
        for subject in ("a.7", "a.-"):
            await _publish(probe, f"{name}.{subject}")
        seen.append([one[0] for one in await inbox.rest()])
        seen.append([one[0] for one in await inside.rest(0.01)])
    return seen


async def republish_of_transformed(probe: Probe, name: str) -> Any:
    """Both together; from ">" to ">" means "as it is stored"."""
    seen: list[Any] = []
    inbox = await probe.inbox(f"{name}N.>")
    for number, (subjects, transform, republish) in enumerate((
        (["b.*"], ("b.*", "n.{{wildcard(1)}}"), {"src": ">", "dest": ">"}),
        (["b.>"], ("b.>", "n.>"), {"src": ">", "dest": ">"}),
        (["b.>"], ("b.>", "n.>"), {"dest": ">"}),
        (["b.>"], ("b.>", "b.n.>"), {"dest": ">"}),
        (["b.>", "c"], ("b.>", "n.>"), {"dest": ">"}),
        (["b.>"], ("b.>", "n.>"), {"src": "n.>", "dest": "n.r.>"}),
        (["b.>"], ("b.>", "n.>"), {"src": "b.>", "dest": "n.r.>"}),
    )):  # fmt: skip
        own = f"{name}{number}"
        change = {"b": own, "n": f"{name}N"}
        mapped = [".".join(change.get(token, token) for token in text.split(".")) for text in transform]
        settings = {
            "subjects": [text.replace("b", own, 1) for text in subjects],
            "subject_transform": {"src": mapped[0], "dest": mapped[1]},
            "republish": {key: ".".join(change.get(token, token) for token in text.split("."))
                          for key, text in republish.items()},
        }  # fmt: skip
        for pedantic in (True, False):
            answer = await probe.api(f"STREAM.CREATE.{own}", {"name": own, "pedantic": pedantic, **settings})
            seen.append(answer.get("error") or answer["config"]["republish"])
            if "error" not in answer and pedantic:
                await probe.api(f"STREAM.DELETE.{own}")
        if "error" not in answer:
            await _publish(probe, f"{own}.7")
            seen.append(await _heard(inbox))
            await probe.api(f"STREAM.DELETE.{own}")
    return seen


SUBJECT_SCENARIOS: tuple[Scenario, ...] = (
    transform_checks, transform_updates, transform_reads, republished, republish_destinations,
    republish_of_transformed,
)  # fmt: skip
