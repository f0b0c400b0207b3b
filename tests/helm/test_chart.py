"""The chart, rendered by the real helm, against Kubernetes' own schemas and the gateway's settings."""

import itertools
import re
import shutil
import subprocess
import tomllib

import pytest
import yaml
from redis_server import running_redis
from rendered_chart import (
    GPU,
    INSTALL,
    NODES,
    RUNNING_ENGINES,
    SCALED,
    SCALED_BY_QUEUE,
    VARIANTS,
    container_of,
    installed,
    pod_of,
    pod_templates,
    render,
    run_helm,
    settings_of,
    templates_of,
)
from values_table import (
    CHART,
    README,
    SCHEMA,
    SCHEMA_FILE,
    leaves,
    properties_of,
    with_settings,
    with_table,
)

from gateway.settings_table import settings_table

WRITE = "run `python tests/helm/values_table.py`"
HUB = "runtime: {model: a/b, hubClaim: models}"
TOOLSETS = "toolsets: {a: []}\n"
KUBERNETES = ("1.30", "1.33")
CUSTOM = {
    "gateway.networking.k8s.io/v1",
    "keda.sh/v1alpha1",
    "leaderworkerset.x-k8s.io/v1",
    "monitoring.coreos.com/v1",
}
"""Groups that are not Kubernetes' own; of their objects, only pod templates are validated."""


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())
def test_the_chart_passes_helms_own_lint(values):
    done = run_helm("lint --strict", values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES)
def test_every_object_is_what_kubernetes_accepts(variant, version):
    """`strict` also refuses fields that Kubernetes does not know."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=INSTALL)
    for document in variant.values():
        if document["apiVersion"] in CUSTOM:
            documents = [
                {"apiVersion": "v1", "kind": "PodTemplate", "template": template}
                for template in templates_of(document)
            ]
        else:
            documents = [document]
        for each in documents:
            kubernetes_validate.validate(each, version, strict=True)


def test_a_misspelled_field_would_be_found():
    """The check above can fail."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason=INSTALL)
    deployment = render("{}")["Deployment", "release-callgate-gateway"]
    deployment["spec"]["template"]["spec"]["enableServiceLink"] = False
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES[0], strict=True)


def test_the_settings_file_is_one_the_gateway_accepts(variant):
    environment = {"CALLGATE_SECRET": "s" * 48, "CALLGATE_STORE": "redis://redis/0"}
    settings = settings_of(variant, environment)
    assert (settings.host, settings.port, settings.has_authentication) == ("0.0.0.0", 8080, True)


def test_values_arrive_in_the_settings():
    objects = render(SCALED + GPU.replace("gateway:", "ignored:").split("ignored:")[0])
    settings = settings_of(objects)
    assert (settings.model, settings.model_name, settings.syntax) == ("/models/qwen3", "qwen3", "hermes")
    assert (settings.max_waiting, settings.capture_content, settings.genai_conventions) == (
        1000,
        True,
        "1.36",
    )
    assert (settings.telemetry, settings.otlp_endpoint) == ("otlp", "http://collector:4318/v1/traces")


def test_every_command_in_a_gateway_pod_has_its_settings():
    """`callgate store gc` in a pod must not collect by the defaults."""
    objects = render("{}")
    spec, gateway = pod_of(objects, "gateway"), container_of(objects, "gateway")
    [mount] = [mount for mount in gateway["volumeMounts"] if mount["name"] == "config"]
    [volume] = [volume for volume in spec["volumes"] if volume["name"] == "config"]
    [name] = objects["ConfigMap", volume["configMap"]["name"]]["data"]
    assert {"name": "CALLGATE_CONFIG", "value": f"{mount['mountPath']}/{name}"} in gateway["env"]
    assert gateway["command"] == ["callgate", "serve"]


def test_the_password_of_redis_is_no_part_of_a_url():
    """What an existing Secret holds may be any characters; the gateway writes them into the URL."""
    values = "redis: {existingSecret: mine}"
    environment = {entry["name"]: entry for entry in container_of(render(values), "gateway")["env"]}
    assert environment["CALLGATE_STORE"]["value"] == "redis://release-callgate-redis:6379/0"
    password = environment["CALLGATE_STORE_PASSWORD"]["valueFrom"]["secretKeyRef"]
    assert password == {"name": "mine", "key": "password"}


def test_pods_restart_when_what_the_values_put_into_secrets_changes():
    def annotations(values):
        deployment = render(values)["Deployment", "release-callgate-gateway"]
        return deployment["spec"]["template"]["metadata"]["annotations"]

    first, second = (f"auth: {{apiKeys: [{key}-key-of-a-client]}}" for key in ("first", "second"))
    assert annotations(first) == annotations(first + "\n# rendered anew")
    assert annotations(first) != annotations(second)


def test_no_pod_runs_as_root_writes_to_its_image_or_inherits_service_variables(variant):
    for template in pod_templates(variant):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_the_gateway_is_probed_where_it_answers(variant):
    container = container_of(variant, "gateway")
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/healthz", "no outage of Redis ends all pods"
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]


def test_a_pod_that_starts_before_redis_waits_until_its_probe_gives_up(variant):
    probe = container_of(variant, "gateway")["startupProbe"]
    assert settings_of(variant).store_wait_seconds >= probe["periodSeconds"] * probe["failureThreshold"]


def test_a_pod_that_ends_has_time_for_the_longest_answer(variant):
    settings = settings_of(variant)
    spec = pod_of(variant, "gateway")
    assert settings.request_seconds <= settings.drain_seconds
    shell = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert shell[0] == "sleep"
    assert int(shell[1]) + settings.drain_seconds < spec["terminationGracePeriodSeconds"]


def test_a_rollout_waits_longer_than_a_model_may_take_to_load():
    spec = render("gateway: {startupMinutes: 45}")["Deployment", "release-callgate-gateway"]["spec"]
    probe = spec["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 45 * 60 < spec["progressDeadlineSeconds"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_a_probe_that_waits_for_the_model_is_answered_as_soon_as_it_has_loaded():
    """With Kubernetes' one second, each probe during the load would fail, and the next one come up to five later."""
    probe = container_of(render("{}"), "gateway")["startupProbe"]
    assert probe["timeoutSeconds"] == probe["periodSeconds"]


def test_helm_prints_why_a_job_has_failed():
    """By itself it only says `Job Failed. failed: 3/1`."""
    jobs = [o for (kind, _), o in render(f"{TOOLSETS}{HUB}").items() if kind == "Job"]
    assert [job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] for job in jobs] == [
        "hook-failed"
    ] * 2


def test_a_new_version_of_the_chart_alone_restarts_no_pod(tmp_path):
    newer = tmp_path / "callgate"
    shutil.copytree(CHART, newer)
    described = (newer / "Chart.yaml").read_text("utf-8")
    (newer / "Chart.yaml").write_text(described.replace("\nversion: 0.1.0\n", "\nversion: 0.1.1\n"), "utf-8")
    rendered = [
        subprocess.run(
            [
                installed("helm"),
                "template",
                "release",
                str(chart),
                "--set",
                "engine.kind=vllm,runtime.model=a/b",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for chart in (CHART, newer)
    ]
    assert "callgate-0.1.1" in rendered[1]
    before, after = (
        [t for o in yaml.safe_load_all(text) if o and o["kind"] != "Pod" for t in templates_of(o)]
        for text in rendered
    )
    assert before == after


def test_pods_of_one_kind_are_spread_over_the_nodes():
    objects = render(VARIANTS["vllm"])
    for kind, name, component in (
        ("Deployment", "release-callgate-gateway", "gateway"),
        ("StatefulSet", "release-callgate-engine", "engine"),
    ):
        spec = objects[kind, name]["spec"]
        [spread] = spec["template"]["spec"]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname"
        assert spread["labelSelector"] == spec["selector"]
        assert spread["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == component
    own = pod_of(render(SCALED), "gateway")
    assert own["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": {"a": "b"}}


def test_pods_are_placed_and_get_variables_as_the_values_say():
    values = """
        gateway:
          env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]
          priorityClassName: high
          nodeSelector: {kubernetes.io/arch: amd64}
        engine: {kind: vllm, vllm: {env: [{name: NCCL_DEBUG, value: INFO}], priorityClassName: low}}
        redis: {nodeSelector: {disk: ssd}}
        runtime: {model: a/b, hubClaim: models}
        toolsets: {a: []}
        """
    objects = render(values)
    pods = {t["metadata"]["labels"]["app.kubernetes.io/component"]: t["spec"] for t in pod_templates(objects)}
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in pods["gateway"]["containers"][0]["env"]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in pods["engine"]["containers"][0]["env"]
    assert {name: spec.get("priorityClassName") for name, spec in pods.items()} == {
        "gateway": "high",
        "engine": "low",
        "redis": None,
        "client": None,
        "model": None,
    }
    amd64 = {"kubernetes.io/arch": "amd64"}
    assert [pods[name]["nodeSelector"] for name in ("gateway", "client", "model")] == [amd64] * 3
    assert pods["redis"]["nodeSelector"] == {"disk": "ssd"}


def test_the_probes_of_redis_tell_a_server_that_loads_from_one_that_hangs(tmp_path):
    """The commands as the chart has them, against a real server."""
    container = container_of(render("{}"), "redis")

    def answers(probe, port):
        program, *words = container[probe]["exec"]["command"]
        command = [program, "-p", str(port), *words]
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0

    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed (Debian: apt-get install redis-tools)")
    with running_redis(tmp_path, requirepass="secret") as server:  # an error, as LOADING is
        assert answers("livenessProbe", server.port)
        assert not answers("readinessProbe", server.port)
    with running_redis(tmp_path) as server:
        assert answers("readinessProbe", server.port)
    assert not answers("livenessProbe", server.port)


def test_a_full_redis_forgets_grammars_and_no_registration():
    arguments = container_of(render("redis: {maxMemory: 2gb}"), "redis")["args"]
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert (options["--maxmemory"], options["--maxmemory-policy"]) == ("2gb", "volatile-lru")


def test_the_gpu_variant_asks_for_accelerators_and_mounts_the_models():
    container = container_of(render(GPU), "gateway")
    assert container["resources"]["limits"] == {"memory": "8Gi", "nvidia.com/gpu": 2}
    assert {"name": "models", "mountPath": "/models", "readOnly": True} in container["volumeMounts"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("engine: {kind: vllm}", 'vLLM does not know "demo"'),
        ("engine: {kind: sglang}", 'SGLang does not know "demo"'),
        ("engine: {kind: sglang}\nruntime: {model: a/b}\nredis: {enabled: false}", "a shared store"),
        ("engine: {kind: sglang, server: sglang}\nruntime: {model: a/b}", "set engine.kind to external"),
        ("engine: {kind: sglang, sglang: {nodes: 2}}\nruntime: {model: a/b}", "engine.sglang.cache"),
        ("engine: {sglang: {args: [--pp-size=2]}}", "/engine/sglang/args/0"),
        ("engine: {sglang: {replica: 2}}", "replica"),
        ("engine: {kind: external}", "engine.urls"),
        ("engine: {urls: ['http://a:8000']}", "set engine.kind to external"),
        ("engine: {server: llama_server}", "set engine.kind to external"),
        ("engine: {autoscaling: {enabled: true}}", "engine.autoscaling.prometheus.url"),
        (SCALED_BY_QUEUE.replace("podDisruptionBudget", "autoscaling"), "switch one of the two off"),
        (SCALED_BY_QUEUE + "redis: {enabled: false}", "several gateways need a shared store"),
        (SCALED_BY_QUEUE.replace("maxReplicas: 3", "minReplicas: 5"), "engine.autoscaling.minReplicas"),
        (
            RUNNING_ENGINES.replace("kind", "autoscaling: {enabled: true}, kind"),
            "scaled by whoever runs them",
        ),
        ("runtime: {hubClaim: models}", "runtime.hubClaim"),
        ("runtime: {hubClaim: models, model: /models/qwen3}", "runtime.hubClaim"),
        (NODES.replace("cache: {enabled: false}", "cache: {enabled: true}"), "engine.vllm.cache"),
        ("engine: {vllm: {args: [--nnodes=2]}}", "/engine/vllm/args/0"),
        ("engine: {kind: vllm, server: sglang}\nruntime: {model: a/b}", "set engine.kind to external"),
        ("engine: {kind: external, urls: ['http://a:8000/v1']}", "/engine/urls/0"),
        ("engine: {kind: vllm, vllm: {args: [--api-key=x]}}\nruntime: {model: a/b}", "/engine/vllm/args/0"),
        ("engine: {kind: vllm}\nruntime: {model: a/b, gpu: {count: 1}}", "engine.vllm.gpu"),
        ("engine: {kind: vllm}\nruntime: {model: a/b}\nredis: {enabled: false}", "a shared store"),
        (RUNNING_ENGINES + "gateway: {settings: {adapter: /models/a}}", "are for the embedded engine"),
        (RUNNING_ENGINES + "gateway: {settings: {particles: 4}}", "are for the embedded engine"),
        ("gateway: {settings: {tokenizer: a/b}}", "are for engines outside the gateways"),
        ("gateway: {autoscaling: {enabled: true, minReplicas: 5}}", "gateway.autoscaling.minReplicas"),
        (
            "gateway: {autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}",
            "gateway.resources.requests.cpu",
        ),
        ("ingress: {enabled: true}", "ingress.hosts"),
        ("httpRoute: {enabled: true}", "httpRoute.parentRefs"),
        ("gateway: {requestSeconds: 600}", "gateway.terminationGracePeriodSeconds"),
        (
            "gateway: {settings: {drain_seconds: 400}}",
            "gateway.terminationGracePeriodSeconds; set that to 412",
        ),
        ("gateway: {settings: {request_seconds: 5}}", "/gateway/settings/request_seconds"),
        (
            "gateway: {settings: {prot: 5}}",
            "at '/gateway/settings': additional properties 'prot' not allowed",
        ),
        ("gateway: {env: [{value: x}]}", "/gateway/env/0"),
        ("gateway: {nodeSelector: {spot: true}}", "/gateway/nodeSelector/spot"),
        ("toolsets: {a: []}\nredis: {enabled: false}", "toolsets: without a shared store"),
        ("engine: {vllm: {args: [--shutdown-timeout=1]}}", "/engine/vllm/args/0"),
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
def test_values_that_cannot_work_are_refused_with_the_reason(values, reason):
    done = run_helm("template release", values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_the_chart_takes_every_setting_that_it_does_not_set_itself():
    shape = properties_of(SCHEMA)["gateway"]["properties"]["settings"]
    (others,) = shape["patternProperties"]
    taken = [setting.name for setting in settings_table() if setting.name not in shape["properties"]]
    assert [name for name in taken if not re.fullmatch(others, name)] == [], WRITE
    text = SCHEMA_FILE.read_text("utf-8")
    assert text == with_settings(text), WRITE


@pytest.mark.parametrize(
    ("engine", "refused"),
    [("embedded", {"tokenizer", "engine_ca_bundle"}), ("vllm", {"adapter", "particles"})],
)
def test_no_setting_is_written_twice(engine, refused):
    """A file of TOML that has a key twice cannot be read."""
    own = properties_of(properties_of(SCHEMA)["gateway"])["settings"]["properties"]
    taken = {setting.name: 1 for setting in settings_table() if setting.name not in own.keys() | refused}
    values = {"engine": {"kind": engine}, "runtime": {"model": "a/b"}, "gateway": {"settings": taken}}
    [config] = [
        each for each in render(yaml.safe_dump(values)).values() if "callgate.toml" in each.get("data", {})
    ]
    assert tomllib.loads(config["data"]["callgate.toml"]).keys() >= taken.keys()


def test_the_default_values_are_documented_by_the_schema_key_for_key():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))

    def keys(values, shape):
        for name, value in values.items():
            properties = properties_of(shape)
            if not properties:
                return
            yield name in properties
            if isinstance(value, dict) and name in properties:
                yield from keys(value, properties[name])

    assert all(itertools.chain(keys(defaults, SCHEMA)))


def test_a_route_of_the_gateway_api_leads_to_the_gateways():
    values = "httpRoute: {enabled: true, parentRefs: [{name: public}], hostnames: [callgate.example.org]}"
    objects = render(values)
    route, service = objects["HTTPRoute", "release-callgate"], objects["Service", "release-callgate"]
    [rule] = route["spec"]["rules"]
    [backend] = rule["backendRefs"]
    assert backend == {
        "name": service["metadata"]["name"],
        "port": service["spec"]["ports"][0]["port"],
    }
    assert (route["spec"]["hostnames"], rule["timeouts"]) == (["callgate.example.org"], {"request": "0s"})


def test_the_readme_lists_every_value_with_its_description():
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert all(description for _, _, description in leaves(defaults, SCHEMA))
    readme = README.read_text("utf-8")
    assert readme == with_table(readme), WRITE
    assert f"{len(VARIANTS)} combinations of values" in readme
