"""The chart, rendered by the real helm, against Kubernetes' own schemas and the gateway's settings."""

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gateway.setting_sources import load

CHART = Path(__file__).resolve().parents[2] / "helm" / "callgate"
KUBERNETES = ("1.30", "1.33")
INSTALL = f"run `{Path(sys.executable).name} tests/helm/install_tools.py`"

GPU = """
runtime:
  model: /models/qwen3
  modelName: qwen3
  syntax: hermes
  device: cuda
  gpu: {count: 2}
  modelVolume: {persistentVolumeClaim: {claimName: models}}
gateway:
  nodeSelector: {accelerator: h200}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
"""
SCALED = """
gateway:
  autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 6}
  podDisruptionBudget: {enabled: true, maxUnavailable: 25%}
  settings: {max_waiting: 1000, capture_content: true, genai_conventions: "1.36"}
  service: {type: LoadBalancer, annotations: {example.org/internal: "true"}}
  podAnnotations: {example.org/scrape: "true"}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}
telemetry: {exporter: otlp, otlpEndpoint: "http://collector:4318/v1/traces"}
redis: {persistence: {enabled: false}}
imagePullSecrets: [{name: registry}]
"""
EXTERNAL = """
redis: {enabled: false, external: {url: "rediss://:pw@redis.example.org:6380/2"}}
auth: {apiKeys: [first-key-1, second-key-2]}
fullnameOverride: tools
serviceAccount: {create: false}
"""
OWN_SECRETS = """
redis: {enabled: false, external: {existingSecret: store}}
auth: {existingSecret: keys}
"""
ALONE = """
redis: {enabled: false}
"""
VARIANTS = {
    "default": "{}",
    "gpu": GPU,
    "scaled": SCALED,
    "external": EXTERNAL,
    "own secrets": OWN_SECRETS,
    "alone": ALONE,
}


def helm_binary() -> str:
    beside = Path(sys.executable).parent / "helm"
    found = shutil.which("helm") or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip(f"no helm here; {INSTALL}")
    return found


def run_helm(command: str, values: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    values_file = tmp_path / "values.yaml"
    values_file.write_text(values, "utf-8")
    line = [helm_binary(), *command.split(), str(CHART), "--values", str(values_file), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)


def render(values: str, tmp_path: Path) -> dict[tuple[str, str], dict]:
    """Every object of the rendered chart, by kind and name."""
    done = run_helm("template release", values, tmp_path, "--namespace", "here")
    assert done.returncode == 0, done.stderr
    objects = [document for document in yaml.safe_load_all(done.stdout) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in objects}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def variant(request, tmp_path):
    return render(request.param, tmp_path)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_chart_passes_helms_own_lint(values, tmp_path):
    done = run_helm("lint --strict", values, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_what_kubernetes_accepts(variant, version):
    """`strict` also refuses fields that Kubernetes does not know."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=INSTALL)
    for document in variant.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelled_field_would_be_found(tmp_path):
    """The check above can fail."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=INSTALL)
    deployment = render("{}", tmp_path)["Deployment", "release-callgate-gateway"]
    deployment["spec"]["template"]["spec"]["enableServiceLink"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES[0], strict=True)


def pod_templates(objects):
    return [o["spec"]["template"] for o in objects.values() if o["kind"] in {"Deployment", "StatefulSet"}]


def test_the_settings_file_is_one_the_gateway_accepts(variant, tmp_path):
    [config] = [o for o in variant.values() if o["kind"] == "ConfigMap"]
    path = tmp_path / "callgate.toml"
    path.write_text(config["data"]["callgate.toml"], "utf-8")
    settings = load(
        config=path, environment={"CALLGATE_SECRET": "s" * 48, "CALLGATE_STORE": "redis://redis/0"}
    )
    assert (settings.host, settings.port, settings.has_authentication) == ("0.0.0.0", 8080, True)


def test_values_arrive_in_the_settings(tmp_path):
    objects = render(SCALED + GPU.replace("gateway:", "ignored:").split("ignored:")[0], tmp_path)
    [config] = [o for o in objects.values() if o["kind"] == "ConfigMap"]
    path = tmp_path / "callgate.toml"
    path.write_text(config["data"]["callgate.toml"], "utf-8")
    settings = load(config=path, environment={})
    assert (settings.model, settings.model_name, settings.syntax) == ("/models/qwen3", "qwen3", "hermes")
    assert (settings.max_waiting, settings.capture_content, settings.genai_conventions) == (
        1000,
        True,
        "1.36",
    )
    assert (settings.telemetry, settings.otlp_endpoint) == ("otlp", "http://collector:4318/v1/traces")


def test_selectors_match_the_pods_they_mean_and_no_others(variant):
    pods = [template["metadata"]["labels"] for template in pod_templates(variant)]
    selectors = [
        o["spec"]["selector"] for o in variant.values() if o["kind"] in {"Service", "PodDisruptionBudget"}
    ]
    for selector in selectors:
        wanted = selector.get("matchLabels", selector)
        assert sum(wanted.items() <= labels.items() for labels in pods) == 1
    for workload in (o for o in variant.values() if "template" in o.get("spec", {})):
        wanted = workload["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_every_secret_volume_and_claim_that_is_used_exists(variant):
    made = {name for kind, name in variant if kind == "Secret"} | {"keys", "store"}
    for template in pod_templates(variant):
        spec = template["spec"]
        claims = {"data"} if "-redis" in str(spec["containers"][0]["env"]) else set()
        volumes = {volume["name"] for volume in spec.get("volumes", [])} | claims
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            refs = [
                env["valueFrom"]["secretKeyRef"]["name"] for env in container["env"] if "valueFrom" in env
            ]
            assert set(refs) <= made


def test_the_password_of_redis_is_no_part_of_a_url(tmp_path):
    """What an existing Secret holds may be any characters; the gateway writes them into the URL."""
    values = "redis: {existingSecret: mine}"
    gateway = render(values, tmp_path)["Deployment", "release-callgate-gateway"]["spec"]["template"]["spec"]
    environment = {entry["name"]: entry for entry in gateway["containers"][0]["env"]}
    assert environment["CALLGATE_STORE"]["value"] == "redis://release-callgate-redis:6379/0"
    password = environment["CALLGATE_STORE_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert password == {"name": "mine", "key": "password"}


def test_pods_restart_when_what_the_values_put_into_secrets_changes(tmp_path):
    def annotations(values):
        deployment = render(values, tmp_path)["Deployment", "release-callgate-gateway"]
        return deployment["spec"]["template"]["metadata"]["annotations"]

    first, second = (f"auth: {{apiKeys: [{key}-key-of-a-client]}}" for key in ("first", "second"))
    assert annotations(first) == annotations(first)
    assert annotations(first) != annotations(second)


def test_no_pod_runs_as_root_writes_to_its_image_or_inherits_service_variables(variant):
    for template in pod_templates(variant):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["enableServiceLinks"] is False
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_gateway_is_probed_where_it_answers(variant):
    [gateway] = [o for (kind, name), o in variant.items() if kind == "Deployment"]
    [container] = gateway["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz", "no outage of Redis ends all pods"
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]


def test_a_full_redis_forgets_grammars_and_no_registration(tmp_path):
    redis = render("redis: {maxMemory: 2gb}", tmp_path)["StatefulSet", "release-callgate-redis"]
    [container] = redis["spec"]["template"]["spec"]["containers"]
    options = dict(zip(container["args"][::2], container["args"][1::2], strict=True))
    assert (options["--maxmemory"], options["--maxmemory-policy"]) == ("2gb", "volatile-lru")


def test_the_gpu_variant_asks_for_accelerators_and_mounts_the_models(tmp_path):
    spec = render(GPU, tmp_path)["Deployment", "release-callgate-gateway"]["spec"]["template"]["spec"]
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "8Gi", "nvidia.com/gpu": 2}
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in spec["containers"][0][
        "volumeMounts"
    ]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("runtime: {enabled: true}", "this release cannot run the runtime"),
        ("gateway: {replicas: 2}\nredis: {enabled: false}", "several gateways need a shared store"),
        ("redis: {external: {url: redis://elsewhere}}", "set redis.enabled to false"),
        ("telemetry: {exporter: otlp}", "telemetry.otlpEndpoint"),
        ("gateway: {replica: 2}", "replica"),
        ("gateway: {settings: {api_key: 12345678}}", "/gateway/settings/api_key"),
        ("runtime: {device: tpu}", "device"),
        ("auth: {apiKeys: [short]}", "apiKeys"),
    ],
)
def test_values_that_cannot_work_are_refused_with_the_reason(values, reason, tmp_path):
    done = run_helm("template release", values, tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr


def test_the_default_values_are_documented_by_the_schema_key_for_key():
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))

    def keys(values, shape):
        for name, value in values.items():
            properties = shape.get("properties")
            if properties is None:
                return
            yield name in properties
            if isinstance(value, dict) and name in properties:
                yield from keys(value, properties[name])

    assert all(itertools.chain(keys(defaults, schema)))
