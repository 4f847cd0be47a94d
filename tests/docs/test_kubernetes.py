"""The manifest for Kubernetes says what the page says, and Ray's own reader of such manifests accepts it."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs/ray.md").read_text()
TEXT = {"type": "string", "minLength": 1}
COUNT = {"type": "integer", "minimum": 0}
AMOUNTS = {"type": "object", "additionalProperties": {"type": "string"}, "required": ["cpu", "memory"]}
CONTAINER = {
    "type": "object",
    "required": ["name", "image", "resources"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "image": TEXT,
        "resources": {"properties": {"requests": AMOUNTS, "limits": AMOUNTS}, "required": ["requests", "limits"]},
        "ports": {"items": {"properties": {"containerPort": COUNT, "name": TEXT}, "additionalProperties": False}},
        "env": {"items": {"properties": {"name": TEXT, "value": TEXT}, "additionalProperties": False}},
        "volumeMounts": {"items": {"properties": {"name": TEXT, "mountPath": TEXT}, "required": ["name"]}},
    },
}
GROUP = {
    "rayStartParams": {"type": "object", "additionalProperties": TEXT},
    "template": {
        "required": ["spec"],
        "properties": {
            "spec": {
                "required": ["containers"],
                "additionalProperties": False,
                "properties": {
                    "containers": {"type": "array", "minItems": 1, "items": CONTAINER},
                    "volumes": {"type": "array", "items": {"required": ["name"]}},
                    "terminationGracePeriodSeconds": COUNT,
                },
            }
        },
    },
}
# The fields that the API of KubeRay names and requires, of those that the manifest uses.
CLUSTER = {
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "metadata": {"required": ["name"], "properties": {"name": {"pattern": "^[a-z0-9-]{1,50}$"}}},
        "spec": {
            "required": ["headGroupSpec"],
            "additionalProperties": False,
            "properties": {
                "rayVersion": TEXT,
                "authOptions": {"properties": {"mode": {"enum": ["token", "disabled"]}}, "required": ["mode"]},
                "enableInTreeAutoscaling": {"type": "boolean"},
                "autoscalerOptions": {"properties": {"idleTimeoutSeconds": COUNT}, "additionalProperties": False},
                "headGroupSpec": {
                    "required": ["template"],
                    "additionalProperties": False,
                    "properties": GROUP,
                },
                "workerGroupSpecs": {
                    "items": {
                        "required": ["groupName", "minReplicas", "maxReplicas", "template"],
                        "additionalProperties": False,
                        "properties": {
                            **GROUP,
                            "groupName": TEXT,
                            "replicas": COUNT,
                            "minReplicas": COUNT,
                            "maxReplicas": COUNT,
                        },
                    }
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def manifest():
    yaml = pytest.importorskip("yaml", reason="Ray is not installed: add the extra `ray`")
    return yaml.safe_load((TOP / "examples/kubernetes/ray-cluster.yaml").read_text())


def test_the_manifest_has_the_fields_that_the_api_requires_and_no_other(manifest):
    jsonschema = pytest.importorskip("jsonschema", reason="Ray is not installed: add the extra `ray`")
    jsonschema.Draft202012Validator(CLUSTER).validate(manifest)


def test_the_version_of_ray_is_that_of_the_lock_everywhere(manifest):
    (pinned,) = re.findall(r"^ray==(\S+)", (TOP / "requirements.lock").read_text(), re.MULTILINE)
    assert manifest["spec"]["rayVersion"] == pinned
    assert f"FROM rayproject/ray:{pinned}-py311" in PAGE


def test_ray_reads_from_the_manifest_what_the_page_asks_for(manifest):
    reader = pytest.importorskip(
        "ray.autoscaler._private.kuberay.autoscaling_config",
        reason="Ray is not installed: add the extra `ray`",
    )
    config = reader._derive_autoscaling_config_from_ray_cr(
        {**manifest, "metadata": {"name": "a", "namespace": "b"}}
    )
    types = config["available_node_types"]
    offers = {name: {**found["resources"], "most": found["max_workers"]} for name, found in types.items()}
    assert offers["headgroup"]["CPU"] == 0
    assert (offers["cpu"]["CPU"], offers["cpu"]["most"]) == (2, 2)
    assert (offers["gpu"]["GPU"], offers["gpu"]["licence"], offers["gpu"]["most"]) == (1, 1, 4)


def test_the_port_of_the_page_is_open_in_the_head(manifest):
    (container,) = manifest["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    ports = {port["containerPort"] for port in container["ports"]}
    assert {int(port) for port in re.findall(r"--listen 0\.0\.0\.0:(\d+)", PAGE)} <= ports
    assert f"svc/{manifest['metadata']['name']}-head-svc" in PAGE
