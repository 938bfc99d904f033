"""What is in docker/: an image that runs as nobody, configurations that a broker takes, metrics that it has."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml

from jetbroker.config import loader
from jetbroker.testing import Server, embedded
from tests.support import dockerfile
from tests.support.clients import settle
from tools.metrics import metrics

ROOT = Path(__file__).resolve().parent.parent.parent
DOCKER = ROOT / "docker"
STAGES = dockerfile.stages((DOCKER / "Dockerfile").read_text())
IMAGE = STAGES[-1]
COMPOSE = sorted(DOCKER.glob("compose.*.yaml"))
DASHBOARDS = sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
METRIC = re.compile(r"\b(?:gnatsd|jetstream|jetbroker)_\w+")
LABEL = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
OF_PROMETHEUS = {"instance", "job"}  # labels that every sample gets
ENVIRONMENT = {"APP_PASSWORD": "a", "LEAF_PASSWORD": "b", "LEAF_NAME": "north", "HUB_URL": "nats-leaf://l:b@hub:7422"}
SECONDS = 20.0

Labels = dict[str, set[str]]


def test_the_image_runs_as_a_user_without_rights() -> None:
    user, _, group = IMAGE.last("USER").partition(":")
    assert int(user) > 0 and int(group) > 0
    assert IMAGE.last("VOLUME") == "/data"
    assert dockerfile.exec_form(IMAGE.last("ENTRYPOINT")) == ["tini", "--", "jetbroker"]
    assert "/healthz" in IMAGE.last("HEALTHCHECK")


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    allowed = {line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().split() if line.startswith("!")}
    copied = [name for stage in STAGES for origin, names, _ in dockerfile.copies(stage) if not origin for name in names]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert [name for name in copied if Path(name).parts[0] not in allowed] == []


def test_stages_take_files_from_stages_that_exist() -> None:
    origins = {origin for stage in STAGES for origin, _, _ in dockerfile.copies(stage)} - {""}
    assert origins and origins <= {stage.name for stage in STAGES}


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_name_what_is_there(path: Path) -> None:
    told = yaml.safe_load(path.read_text())
    built = {service["image"] for service in told["services"].values() if "build" in service}
    assert "jetbroker" in built
    volumes = set(told["volumes"])
    for service in told["services"].values():
        assert service["image"] in built or re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        target = service.get("build", {}).get("target")
        assert target is None or target in {stage.name for stage in STAGES}
        for mounted in service["volumes"]:
            source = mounted.split(":")[0]
            assert (DOCKER / source).exists() if source.startswith(".") else source in volumes
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


@pytest.mark.parametrize("path", sorted(DOCKER.glob("*.conf")), ids=lambda path: path.name)
def test_a_broker_takes_the_configurations(path: Path) -> None:
    options = loader.load_file(str(path), ENVIRONMENT).options
    assert options.jetstream.store_dir == "/data"
    assert (options.port, options.http_port) == (4222, 8222)


PASSWORD = re.compile(r"\$\{(\w+_PASSWORD):\?[^}]*\}")


def of_service(name: str, password: str) -> dict[str, str]:
    """What compose puts into the environment of a service of the hub and its leaves."""
    service = yaml.safe_load((DOCKER / "compose.leafnodes.yaml").read_text())["services"][name]
    return {key: PASSWORD.sub(lambda found: password, value) for key, value in service["environment"].items()}


@pytest.mark.parametrize("password", ["sesame", "12345", 'a:/@?#%b c"\\{$x', "true"])
async def test_leaves_log_in_at_the_hub_whatever_the_password(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = yaml.safe_load((DOCKER / "compose.leafnodes.yaml").read_text())["services"]
    here = {"0.0.0.0:4222": "127.0.0.1:-1", "0.0.0.0:8222": "127.0.0.1:-1", "0.0.0.0:7422": "127.0.0.1:-1"}
    texts = {}
    for name in ("hub", "leaf"):
        texts[name] = (DOCKER / f"{name}.conf").read_text().replace("/data", str(tmp_path / name))
        for address, instead in here.items():
            texts[name] = texts[name].replace(address, instead)
    for key, value in of_service("hub", password).items():
        monkeypatch.setenv(key, value)
    async with embedded(config=texts["hub"], jetstream=False) as hub:
        (place,) = re.findall(r"Listening for leafnode connections on (\S+)", "\n".join(hub.log))
        for key, value in (of_service("north", password) | {"HUB": place}).items():
            monkeypatch.setenv(key, value)
        _tini, _, _python, isolated, script = services["north"]["entrypoint"]
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        leaf = Server(config=texts["leaf"], command=[sys.executable, isolated, str(DOCKER / Path(script).name)])
        at_hub = await nats.connect(hub.url, user="app", password=password)
        heard = await at_hub.subscribe("readings")
        await settle(at_hub)
        with leaf:
            at_leaf = await nats.connect(leaf.url)
            until = time.monotonic() + SECONDS
            while not heard.pending_msgs and time.monotonic() < until:
                await at_leaf.publish("readings", b"21.5")
                await settle(at_leaf)
                await asyncio.sleep(0.05)
            assert (await heard.next_msg(SECONDS)).data == b"21.5", leaf.log
            await at_leaf.close()
        await at_hub.close()


@pytest.fixture(scope="module")
def answered() -> Labels:
    """Each metric of a broker with a bit of everything, and the labels that it has."""
    return {metric.name: set(metric.labels) for metric in metrics()}


def expressions(node: Any) -> Iterator[str]:
    """Each expression of a dashboard."""
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key in ("expr", "definition") and isinstance(value, str))
        for value in node.values():
            yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def unknown(expression: str, texts: list[str], answered: Labels) -> list[str]:
    """Metrics that a broker does not have, and labels in texts that they do not have."""
    metrics = set(METRIC.findall(expression))
    labels = OF_PROMETHEUS.union(*(answered.get(name, set()) for name in metrics))
    named = {name for text in texts for name in LABEL.findall(text)}
    return sorted((metrics - answered.keys()) | (named - labels))


def test_every_metric_of_the_dashboards_is_in_an_answer(answered: Labels) -> None:
    for path in DASHBOARDS:
        told = json.loads(path.read_text())
        assert [found for found in (unknown(text, [], answered) for text in expressions(told)) if found] == []
        for panel in told["panels"]:
            for target in panel["targets"]:
                assert unknown(target["expr"], [target["legendFormat"]], answered) == [], panel["title"]
        assert len({panel["id"] for panel in told["panels"]}) == len(told["panels"])


def test_every_metric_of_the_alerts_is_in_an_answer(answered: Labels) -> None:
    (group,) = yaml.safe_load((DOCKER / "alerts.yml").read_text())["groups"]
    assert len({rule["alert"] for rule in group["rules"]}) == len(group["rules"])
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert unknown(rule["expr"], list(rule["annotations"].values()), answered) == [], rule["alert"]


def test_these_checks_can_fail(answered: Labels) -> None:
    assert unknown("rate(gnatsd_varz_in_msg[5m]) > jetbroker_storage_faults", [], answered) == ["gnatsd_varz_in_msg"]
    assert unknown("jetbroker_storage_faults", ["{{ $labels.stream_name }}", "{{instance}}"], answered) == [
        "stream_name"
    ]


def test_what_the_services_are_given_is_theirs() -> None:
    told = yaml.safe_load((DOCKER / "compose.observed.yaml").read_text())["services"]
    prometheus = yaml.safe_load((DOCKER / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["broker:8222"] and "broker" in told
    provisioning = DOCKER / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "jetbroker.yml").read_text())["providers"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in told["grafana"]["volumes"]
    text = DASHBOARDS[0].read_text()
    assert set(re.findall(r'"type": "prometheus",\s+"uid": "(\w+)"', text)) == {source["uid"]}


def checked(url: str) -> subprocess.CompletedProcess[str]:
    """The image's HEALTHCHECK, run as it is there, on another address."""
    *_, script, asked = dockerfile.exec_form(IMAGE.last("HEALTHCHECK").partition(" CMD ")[2])
    place = DOCKER / Path(script).name
    words = [sys.executable, "-I", str(place), asked.replace("http://127.0.0.1:8222", url)]
    return subprocess.run(words, capture_output=True, text=True, timeout=50)


def test_the_health_check_tells_a_broker_that_serves_from_one_that_does_not() -> None:
    with embedded(config="http: 127.0.0.1:-1") as broker:
        url = broker.urls["monitoring"]
        serving = checked(url)
        nowhere = checked(f"{url}/nowhere")
        broker.stop()
        ended = checked(url)
    assert (serving.returncode, serving.stderr) == (0, "")
    assert nowhere.returncode == 1 and "404" in nowhere.stderr
    assert ended.returncode == 1 and "Connection refused" in ended.stderr
