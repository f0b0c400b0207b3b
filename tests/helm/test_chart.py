"""The chart, rendered by the real helm, against Kubernetes' own schemas and the gateway's settings."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fake_runtime import FakeRuntime
from serving import served
from values_table import CHART, leaves, with_table

from gateway.app import create_app
from gateway.setting_sources import load
from gateway.settings import Settings
from runtime.engines.settings import PluginSettings

KUBERNETES = ("1.30", "1.33")
KEY = "a-key-of-this-test"
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
VLLM = """
engine:
  kind: vllm
  vllm:
    replicas: 2
    gpu: {count: 4}
    args: [--max-model-len=32768, --enable-lora]
    cache: {storageClass: fast}
    runtimeClassName: nvidia
    nodeSelector: {accelerator: h200}
runtime: {model: Qwen/Qwen3-32B, dtype: bfloat16, hubTokenSecret: hub}
gateway: {replicas: 2}
networkPolicy: {enabled: true}
"""
VLLM_ON_CPUS = """
engine: {kind: vllm, existingSecret: engines, vllm: {gpu: {count: 0}, cache: {enabled: false}}}
runtime: {model: /models/qwen3, modelVolume: {persistentVolumeClaim: {claimName: models}}}
redis: {enabled: false, external: {existingSecret: store}}
networkPolicy: {enabled: true, allowHub: false, egress: [{ports: [{port: 6380, protocol: TCP}]}]}
"""
RUNNING_ENGINES = """
engine: {kind: external, urls: ["http://a.models:8000", "https://b.models"], modelName: qwen, existingSecret: engines}
runtime: {model: Qwen/Qwen3-8B}
"""
OPEN_ENGINES = """
engine: {kind: external, urls: ["http://a.models:8000"]}
gateway: {settings: {max_waiting: 1000}}
"""
FROM_OUTSIDE = """
ingress:
  enabled: true
  className: nginx
  annotations: {nginx.ingress.kubernetes.io/proxy-buffering: "off"}
  hosts: [callgate.example.org, tools.example.org]
  tls: [{secretName: callgate-tls, hosts: [callgate.example.org]}]
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {role: ingress}}}]}
"""
INGRESS_ALONE = """
ingress: {enabled: true, hosts: [callgate.example.org]}
redis: {enabled: false}
networkPolicy: {enabled: true}
"""
TOOLSETS = """
toolsets:
  payments:
    tools: [{name: refund, description: 'a "full" refund', parameters: {type: object, properties: {all: {type: boolean}}}}]
  large: '[{"name": "count", "parameters": {"type": "object", "properties": {"n": {"maximum": 9007199254740993}}}}]'
imagePullSecrets: [{name: registry}]
networkPolicy: {enabled: true}
"""
VARIANTS = {
    "default": "{}",
    "gpu": GPU,
    "scaled": SCALED,
    "external": EXTERNAL,
    "own secrets": OWN_SECRETS,
    "alone": ALONE,
    "vllm": VLLM,
    "vllm on CPUs": VLLM_ON_CPUS,
    "running engines": RUNNING_ENGINES,
    "open engines": OPEN_ENGINES,
    "from outside": FROM_OUTSIDE,
    "ingress alone": INGRESS_ALONE,
    "toolsets": TOOLSETS,
    "vllm, all of it": VLLM
    + FROM_OUTSIDE.replace("networkPolicy", "serviceAccount: {name: mine}\nredis").replace(
        "enabled: true, from: [{namespaceSelector: {matchLabels: {role: ingress}}}]", "maxMemory: 1gb"
    ),
    "no names": "nameOverride: tools\nlogLevel: debug",
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
    workloads = [o["spec"]["template"] for o in objects.values() if "template" in o.get("spec", {})]
    return workloads + [o for o in objects.values() if o["kind"] == "Pod"]


def settings_of(objects, tmp_path, environment=None):
    [config] = [o for o in objects.values() if "callgate.toml" in o.get("data", {})]
    path = tmp_path / "callgate.toml"
    path.write_text(config["data"]["callgate.toml"], "utf-8")
    return load(config=path, environment=environment or {})


def test_the_settings_file_is_one_the_gateway_accepts(variant, tmp_path):
    environment = {"CALLGATE_SECRET": "s" * 48, "CALLGATE_STORE": "redis://redis/0"}
    settings = settings_of(variant, tmp_path, environment)
    assert (settings.host, settings.port, settings.has_authentication) == ("0.0.0.0", 8080, True)


def test_values_arrive_in_the_settings(tmp_path):
    objects = render(SCALED + GPU.replace("gateway:", "ignored:").split("ignored:")[0], tmp_path)
    settings = settings_of(objects, tmp_path)
    assert (settings.model, settings.model_name, settings.syntax) == ("/models/qwen3", "qwen3", "hermes")
    assert (settings.max_waiting, settings.capture_content, settings.genai_conventions) == (
        1000,
        True,
        "1.36",
    )
    assert (settings.telemetry, settings.otlp_endpoint) == ("otlp", "http://collector:4318/v1/traces")


def test_selectors_match_the_pods_they_mean_and_no_others(variant):
    pods = [template["metadata"]["labels"] for template in pod_templates(variant)]
    selecting = {"Service": "selector", "PodDisruptionBudget": "selector", "NetworkPolicy": "podSelector"}
    for workload in variant.values():
        if workload["kind"] in selecting:
            selector = workload["spec"][selecting[workload["kind"]]]
            wanted = selector.get("matchLabels", selector)
            found = [labels for labels in pods if wanted.items() <= labels.items()]
            component = wanted["app.kubernetes.io/component"]
            assert {labels["app.kubernetes.io/component"] for labels in found} == {component}
            assert len(found) == 1 or component == "client"
    for workload in (o for o in variant.values() if o["kind"] in {"Deployment", "StatefulSet"}):
        wanted = workload["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= workload["spec"]["template"]["metadata"]["labels"].items()


def test_every_secret_volume_and_claim_that_is_used_exists(variant):
    made = {name for kind, name in variant if kind == "Secret"} | {"keys", "store", "engines", "hub"}
    configs = {name for kind, name in variant if kind == "ConfigMap"}
    for workload in variant.values():
        template = workload if workload["kind"] == "Pod" else workload.get("spec", {}).get("template")
        if template is None:
            continue
        spec = template["spec"]
        claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
        volumes = {volume["name"] for volume in spec.get("volumes", [])} | claims
        assert {v["secret"]["secretName"] for v in spec.get("volumes", []) if "secret" in v} <= made
        assert {v["configMap"]["name"] for v in spec.get("volumes", []) if "configMap" in v} <= configs
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            sources = [env["valueFrom"]["secretKeyRef"] for env in container["env"] if "valueFrom" in env]
            assert {source["name"] for source in sources} <= made


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
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
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
        ("engine: {kind: vllm}", 'vLLM does not know "demo"'),
        ("engine: {kind: external}", "engine.urls"),
        ("engine: {urls: ['http://a:8000']}", "set engine.kind to external"),
        ("engine: {kind: external, urls: ['http://a:8000/v1']}", "/engine/urls/0"),
        ("engine: {kind: vllm, vllm: {args: [--api-key=x]}}\nruntime: {model: a/b}", "/engine/vllm/args/0"),
        ("engine: {kind: vllm}\nruntime: {model: a/b, gpu: {count: 1}}", "engine.vllm.gpu"),
        ("engine: {kind: vllm}\nruntime: {model: a/b}\nredis: {enabled: false}", "a shared store"),
        ("ingress: {enabled: true}", "ingress.hosts"),
        ("httpRoute: {enabled: true}", "httpRoute.parentRefs"),
        ("toolsets: {Bad Name: []}", "Bad Name"),
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


def test_the_gateways_know_each_engine_by_its_name(tmp_path):
    objects = render(VLLM, tmp_path)
    settings = settings_of(objects, tmp_path)
    engines = objects["StatefulSet", "release-callgate-engine"]
    service = objects["Service", "release-callgate-engine"]
    [container] = engines["spec"]["template"]["spec"]["containers"]
    port = container["ports"][0]["containerPort"]
    assert (settings.engine, settings.model) == ("vllm", "Qwen/Qwen3-32B")
    assert engines["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert settings.engine_url == tuple(
        f"http://{engines['metadata']['name']}-{number}.{service['metadata']['name']}:{port}"
        for number in range(engines["spec"]["replicas"])
    )


def test_engines_and_gateways_share_the_store_the_secret_and_a_key(tmp_path):
    objects = render(VLLM, tmp_path)
    engine = objects["StatefulSet", "release-callgate-engine"]["spec"]["template"]["spec"]["containers"][0]
    pod = objects["Deployment", "release-callgate-gateway"]["spec"]["template"]["spec"]
    theirs = {entry["name"]: entry for entry in engine["env"]}
    ours = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
    for name in ("CALLGATE_SECRET", "CALLGATE_STORE", "CALLGATE_STORE_PASSWORD"):
        assert theirs[name] == ours[name]
    plugin = {name: "x" * 20 for name in theirs if name.startswith("CALLGATE_")}
    plugin |= {"CALLGATE_GRAMMAR_CACHE_BYTES": theirs["CALLGATE_GRAMMAR_CACHE_BYTES"]["value"]}
    assert (
        PluginSettings.from_environment(plugin | {"CALLGATE_STORE": "redis://redis/0"}).cache_bytes == 2**30
    )
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "engine-key"]
    [mount] = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "engine-key"]
    key = theirs["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"]
    assert (volume["secret"]["secretName"], volume["secret"]["items"][0]["key"]) == (key["name"], key["key"])
    path = f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"
    assert settings_of(objects, tmp_path).engine_key_file == path


def test_an_engine_gets_its_accelerators_and_vllm_is_told(tmp_path):
    engines = render(VLLM, tmp_path)["StatefulSet", "release-callgate-engine"]
    [container] = engines["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert container["args"][0] == "Qwen/Qwen3-32B"
    assert {"--tensor-parallel-size=4", "--dtype=bfloat16", "--max-model-len=32768"} < set(container["args"])
    [structured] = [argument for argument in container["args"] if argument.startswith("--structured")]
    assert json.loads(structured.partition("=")[2]) == {"backend": "xgrammar"}


def test_the_hubs_token_reaches_whoever_reads_models_and_nobody_else(tmp_path):
    objects = render(VLLM, tmp_path)
    wanted = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    having = {
        name
        for (_, name), workload in objects.items()
        if "template" in workload.get("spec", {})
        and wanted in workload["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert having == {"release-callgate-gateway", "release-callgate-engine"}


def test_engines_that_run_already_are_asked_with_their_key(tmp_path):
    settings = settings_of(render(RUNNING_ENGINES, tmp_path), tmp_path)
    assert settings.engine_url == ("http://a.models:8000", "https://b.models")
    assert (settings.engine_model, settings.engine_key_file) == ("qwen", "/etc/callgate/engine/api-key")
    alone = settings_of(render(OPEN_ENGINES, tmp_path), tmp_path)
    assert (alone.engine_key_file, alone.max_waiting) == (None, 1000)


def allowed_edges(objects):
    """Who may open a connection to whom, by component: both sides have to admit it."""
    component = "app.kubernetes.io/component"
    policies = {
        o["spec"]["podSelector"]["matchLabels"][component]: o["spec"]
        for o in objects.values()
        if o["kind"] == "NetworkPolicy"
    }

    def peers(rules, side):
        for rule in rules or ():
            for peer in rule.get(side, [{}]):
                labels = peer.get("podSelector", {}).get("matchLabels", {})
                name = labels.get(component, "outside" if peer else "anybody")
                yield from ((name, port["port"]) for port in rule["ports"])

    for source, policy in policies.items():
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        for target, port in peers(policy.get("egress"), "to"):
            admitted = (
                set(peers(policies[target].get("ingress"), "from"))
                if target in policies
                else {(source, port)}
            )
            if {(source, port), ("anybody", port)} & admitted:
                yield source, target, port
        yield from (
            (peer, source, port)
            for peer, port in peers(policy.get("ingress"), "from")
            if peer in {"anybody", "outside"}
        )


def test_network_policies_admit_exactly_what_is_needed(tmp_path):
    dns = {(pod, "anybody", 53) for pod in ("client", "gateway", "engine")}
    hub = {(pod, "anybody", 443) for pod in ("gateway", "engine")}
    inside = {
        ("client", "gateway", 8080),
        ("gateway", "redis", 6379),
        ("engine", "redis", 6379),
        ("gateway", "engine", 8000),
    }
    assert set(allowed_edges(render(VLLM, tmp_path))) == dns | hub | inside | {("anybody", "gateway", 8080)}
    found = set(allowed_edges(render(FROM_OUTSIDE, tmp_path)))
    assert {edge for edge in found if edge[1] == "gateway"} == {
        ("outside", "gateway", 8080),
        ("client", "gateway", 8080),
    }
    assert not any(edge[2] == 443 for edge in allowed_edges(render(VLLM_ON_CPUS, tmp_path)))


def test_toolsets_arrive_as_they_were_written(tmp_path):
    objects = render(TOOLSETS, tmp_path)
    files = objects["ConfigMap", "release-callgate-toolsets"]["data"]
    values = yaml.safe_load(TOOLSETS)["toolsets"]
    assert json.loads(files["payments.json"]) == values["payments"]
    assert files["large.json"] == values["large"]


def test_a_route_of_the_gateway_api_leads_to_the_gateways(tmp_path):
    values = "httpRoute: {enabled: true, parentRefs: [{name: public}], hostnames: [callgate.example.org]}"
    objects = render(values, tmp_path)
    route, service = objects["HTTPRoute", "release-callgate"], objects["Service", "release-callgate"]
    [rule] = route["spec"]["rules"]
    [backend] = rule["backendRefs"]
    assert backend == {
        "name": service["metadata"]["name"],
        "port": service["spec"]["ports"][0]["port"],
    }
    assert (route["spec"]["hostnames"], rule["timeouts"]) == (["callgate.example.org"], {"request": "0s"})


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_the_commands_of_pods_that_call_the_gateways_work(kind, tmp_path):
    """The scripts as the chart has them, against a gateway that is served."""
    objects = render(TOOLSETS, tmp_path)
    workload = objects[kind, f"release-callgate-{'toolsets' if kind == 'Job' else 'test'}"]
    pod = workload["spec"]["template"]["spec"] if kind == "Job" else workload["spec"]
    shell, option, script = pod["containers"][0]["command"]
    (tmp_path / "toolsets").mkdir()
    for name, text in objects["ConfigMap", "release-callgate-toolsets"]["data"].items():
        (tmp_path / "toolsets" / name).write_text(text, "utf-8")
    (tmp_path / "api-keys").write_text(f"# ours\n\n{KEY}\n", "utf-8")
    script = script.replace("/toolsets/", f"{tmp_path}/toolsets/")
    script = script.replace("/etc/callgate/keys", str(tmp_path))
    settings = Settings(data_dir=str(tmp_path), api_key=KEY, compile_workers=0)
    with served(create_app(settings, runtime=FakeRuntime())) as client:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [shell, option, script],
            env={"PATH": path, "CALLGATE_URL": str(client.base_url).rstrip("/")},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if kind == "Job":
            listed = client.get("/v1/toolsets", headers={"Authorization": f"Bearer {KEY}"}).json()
            assert {toolset["name"] for toolset in listed["toolsets"]} == {"payments", "large"}


def test_the_readme_lists_every_value_with_its_description():
    assert all(
        description
        for _, _, description in leaves(
            yaml.safe_load((CHART / "values.yaml").read_text("utf-8")),
            json.loads((CHART / "values.schema.json").read_text("utf-8")),
        )
    )
    readme = (CHART / "README.md").read_text("utf-8")
    assert readme == with_table(readme), "run `python tests/helm/values_table.py`"
