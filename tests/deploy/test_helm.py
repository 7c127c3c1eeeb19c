"""The chart: what it makes is valid for Kubernetes, and its node gets a kit that it accepts."""

from __future__ import annotations

import json
import re
import subprocess
from copy import deepcopy
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from barymesh.peers.kit import Kit
from barymesh.peers.members import KITS, NewNode, create
from tests.deploy.helm_templates import render

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "barymesh-node"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
EXAMPLE = yaml.safe_load((CHART / "ci" / "example-values.yaml").read_text())
MINIMAL = {"kitSecret": "kit", "data": {"volume": {"emptyDir": {}}}}


def merged(values, changes):
    """As Helm does: maps into one another, everything else replaced."""
    result = deepcopy(values)
    for key, value in changes.items():
        result[key] = merged(result[key], value) if isinstance(result.get(key), dict) else value
    return result


def manifests(changes):
    values = merged(DEFAULTS, changes)
    jsonschema.validate(values, SCHEMA)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    scope = {
        "Values": values,
        "Release": {"Name": "clinic", "Namespace": "trial"},
        "Chart": {"AppVersion": chart["appVersion"]},
    }
    texts = {path.name: render(path.read_text(), scope) for path in (CHART / "templates").iterdir()}
    notes = texts.pop("NOTES.txt")
    assert "clinic-0" in notes
    made = [yaml.safe_load(text) for text in texts.values()]
    return {one["kind"]: one for one in made if one is not None}


@pytest.mark.parametrize("changes", [EXAMPLE, MINIMAL], ids=["example", "minimal"])
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_understands_all_of_it(changes, version):
    made = manifests(changes)
    assert set(made) == {"StatefulSet", "Service", "NetworkPolicy"}
    for one in made.values():
        kubernetes_validate.validate(one, version, strict=True)
    labels = made["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert made["Service"]["spec"]["selector"] == labels
    assert made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels


def test_values_get_where_they_belong():
    made = manifests(merged(EXAMPLE, {"port": 6000, "image": {"tag": "7"}}))
    pod = made["StatefulSet"]["spec"]["template"]["spec"]
    (node,) = pod["containers"]
    assert node["image"] == "barymesh:7"
    assert node["args"][:4] == ["node", "/kit", "--data", "/data/samples.csv"]
    assert node["args"][-2:] == ["--duration", "60"]
    assert made["Service"]["spec"]["ports"][0]["port"] == node["ports"][0]["containerPort"] == 6000
    assert made["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"port": 6000}]
    assert {"name": "data", **EXAMPLE["data"]["volume"]} in pod["volumes"]
    assert made["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert "NetworkPolicy" not in manifests(merged(EXAMPLE, {"networkPolicy": {"enabled": False}}))


def test_it_runs_with_no_more_rights_than_it_needs():
    pod = manifests(MINIMAL)["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    volumes = {volume["name"] for volume in pod["volumes"]} | {"state"}
    for container in (*pod["initContainers"], *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kitSecret": "kit"},
        {**MINIMAL, "port": "5555"},
        {**MINIMAL, "port": 70000},
        {**MINIMAL, "replicas": 3},
        {**MINIMAL, "service": {"type": "ExternalName"}},
        {**MINIMAL, "options": ["--duration", 60]},
    ],
)
def test_values_that_make_no_sense_are_refused(changes):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(DEFAULTS, changes), SCHEMA)


def test_the_first_container_makes_a_kit_that_the_node_accepts(tmp_path):
    """As its command does: from files that others may read, as those of a Secret are."""
    nodes = [NewNode(name, f"tcp://{name}.example:6000") for name in "ab"]
    create(tmp_path / "made", nodes, ["ab"], support="20:-3:3", reg=0.3)
    (tmp_path / "kit").mkdir()
    secret = (tmp_path / "made" / KITS / "a").rename(tmp_path / "secret")
    for file in secret.iterdir():
        file.chmod(0o444)
    (first,) = manifests(merged(MINIMAL, {"port": 6000}))["StatefulSet"]["spec"]["template"]["spec"]["initContainers"]
    (script,) = first["args"]
    script = re.sub(r"(?<=[ >])/(?=secret|kit)", f"{tmp_path}/", script)
    subprocess.run([*first["command"], script], check=True)
    kit = Kit.open(tmp_path / "kit")
    assert (kit.name, kit.listen) == ("a", "tcp://0.0.0.0:6000")
