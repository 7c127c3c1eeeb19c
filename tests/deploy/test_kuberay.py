"""The manifest of a Ray cluster: valid for KubeRay and Kubernetes, and in step with its image."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
CLUSTER = yaml.safe_load((ROOT / "deploy" / "kuberay" / "raycluster.yaml").read_text())
DOCKERFILE = (ROOT / "deploy" / "docker" / "ray.Dockerfile").read_text()


def strictly(**properties):
    return {"type": "object", "additionalProperties": False, "properties": properties}


# what ray.io/v1 has around the templates of pods, as far as the manifest uses it; kinds of values matter: all
# parameters of `ray start` are text
WHOLE, TEXT, POD = {"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "object", "required": ["spec"]}
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
WORKERS = strictly(
    groupName=TEXT, replicas=WHOLE, minReplicas=WHOLE, maxReplicas=WHOLE, rayStartParams=PARAMETERS, template=POD
)
SCHEMA = strictly(
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayCluster"},
    metadata=strictly(name=TEXT),
    spec=strictly(
        rayVersion=TEXT,
        enableInTreeAutoscaling={"type": "boolean"},
        autoscalerOptions=strictly(idleTimeoutSeconds=WHOLE, resources={"type": "object"}),
        authOptions=strictly(mode={"enum": ["token", "disabled"]}),
        headGroupSpec=strictly(rayStartParams=PARAMETERS, template=POD),
        workerGroupSpecs={"type": "array", "items": WORKERS},
    ),
)


def groups():
    spec = CLUSTER["spec"]
    return {"head": spec["headGroupSpec"], **{group["groupName"]: group for group in spec["workerGroupSpecs"]}}


def test_kuberay_understands_it():
    jsonschema.validate(CLUSTER, SCHEMA)
    for group in CLUSTER["spec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


@pytest.mark.parametrize("name", list(groups()))
@pytest.mark.parametrize("version", ["1.30", kubernetes_validate.latest_version()])
def test_kubernetes_understands_its_pods(name, version):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": groups()[name]["template"]["spec"]}
    kubernetes_validate.validate(pod, version, strict=True)
    mounted = {mount["name"] for container in pod["spec"]["containers"] for mount in container["volumeMounts"]}
    assert mounted <= {volume["name"] for volume in pod["spec"]["volumes"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def test_image_cluster_and_package_have_one_version_of_ray():
    (version,) = re.findall(r"rayproject/ray:([\d.]+)-", DOCKERFILE)
    assert CLUSTER["spec"]["rayVersion"] == version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (needed,) = [Requirement(one) for one in project["optional-dependencies"]["ray"] if one.startswith("ray")]
    assert needed.specifier.contains(version)
    images = {one["image"] for group in groups().values() for one in group["template"]["spec"]["containers"]}
    assert images == {"barymesh-ray:latest"}


def test_the_image_copies_what_is_there():
    for line in DOCKERFILE.splitlines():
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
