"""The chart as the real helm renders it, with values that people may set."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
import yaml
from values_table import CHART

from gateway.setting_sources import load

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
engine: {kind: external, server: sglang, urls: ["http://a.models:8000"]}
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
NODES = """
engine:
  kind: vllm
  vllm:
    replicas: 2
    nodes: 3
    gpu: {count: 8}
    cache: {enabled: false}
    podDisruptionBudget: {enabled: true}
runtime: {model: Qwen/Qwen3-235B-A22B, hubTokenSecret: hub}
networkPolicy: {enabled: true}
"""
SCALED_ENGINES = """
engine:
  kind: vllm
  autoscaling:
    enabled: true
    minReplicas: 2
    maxReplicas: 5
    sequencesPerEngine: 64
    prometheus: {url: "http://prometheus:9090", authModes: bearer, triggerAuthentication: prometheus}
  vllm: {podDisruptionBudget: {enabled: true, maxUnavailable: 30%}}
runtime: {model: Qwen/Qwen3-8B}
metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}
"""
SCALED_BY_QUEUE = """
engine: {autoscaling: {enabled: true, maxReplicas: 3, prometheus: {url: "http://prometheus:9090"}}}
gateway: {podDisruptionBudget: {enabled: true}}
"""
SCALED_NODES = NODES.replace(
    "kind: vllm\n",
    "kind: vllm\n  autoscaling: {enabled: true, prometheus: {url: 'http://prometheus:9090'}}\n",
)
DOWNLOADED = """
engine: {kind: vllm, vllm: {addPlugin: true, image: {repository: vllm/vllm-openai, tag: v0.32.0}}}
runtime: {model: Qwen/Qwen3-8B, hubClaim: hub-models, hubTokenSecret: hub}
networkPolicy: {enabled: true}
"""
SGLANG = """
engine:
  kind: sglang
  autoscaling: {enabled: true, maxReplicas: 3, prometheus: {url: "http://prometheus:9090"}}
  sglang:
    gpu: {count: 2}
    args: [--mem-fraction-static=0.8]
    cache: {storageClass: fast}
    terminationGracePeriodSeconds: 100
    podDisruptionBudget: {enabled: true}
runtime: {model: Qwen/Qwen3-32B, dtype: bfloat16, hubTokenSecret: hub}
networkPolicy: {enabled: true}
metrics: {prometheusRule: {enabled: true}}
"""
SGLANG_ON_NODES = NODES.replace("vllm", "sglang")
SGLANG_ADDED = DOWNLOADED.replace("vllm/vllm-openai, tag: v0.32.0", "lmsysorg/sglang, tag: v0.5.23").replace(
    "vllm", "sglang"
)
LLAMA_SERVERS = """
engine: {kind: external, server: llama_server, urls: ["http://llama.models:8080"]}
runtime: {model: /models/smollm2, modelVolume: {persistentVolumeClaim: {claimName: models}}}
redis: {enabled: false}
networkPolicy: {enabled: true, egress: [{ports: [{port: 8080, protocol: TCP}]}]}
"""
MONITORED = """
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
httpRoute: {enabled: true, parentRefs: [{name: public, namespace: gateways}], hostnames: [callgate.example.org]}
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
    "engines on nodes": NODES,
    "scaled engines": SCALED_ENGINES,
    "scaled by the queue": SCALED_BY_QUEUE,
    "scaled engines on nodes": SCALED_NODES,
    "downloaded model, added plugin": DOWNLOADED,
    "sglang, scaled": SGLANG,
    "sglang on nodes": SGLANG_ON_NODES,
    "sglang, added plugin": SGLANG_ADDED,
    "llama servers": LLAMA_SERVERS,
    "monitored": MONITORED,
    "no names": "nameOverride: tools\nlogLevel: debug",
}


def installed(program: str) -> str:
    """The path of a program, on the PATH or beside this Python; skips the test where there is none."""
    found = shutil.which(program) or shutil.which(program, path=Path(sys.executable).parent)
    if found is None:
        pytest.skip(f"no {program} here; {INSTALL}")
    return found


def run_helm(command: str, values: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as values_file:
        values_file.write(values)
        values_file.flush()
        line = [installed("helm"), *command.split(), str(CHART), "--values", values_file.name, *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)


def render(values: str) -> dict[tuple[str, str], dict]:
    """Every object of the rendered chart, by kind and name."""
    objects = [document for document in yaml.load_all(_rendered(values), yaml.CSafeLoader) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in objects}


@cache
def _rendered(values: str) -> str:
    done = run_helm("template release", values, "--namespace", "here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def templates_of(workload):
    """The pod templates of an object: none, one, or of a LeaderWorkerSet two."""
    if workload["kind"] == "Pod":
        return [workload]
    spec = workload.get("spec", {})
    spec = spec.get("leaderWorkerTemplate", spec)
    return [spec[name] for name in ("template", "leaderTemplate", "workerTemplate") if name in spec]


def pod_templates(objects):
    return [template for workload in objects.values() for template in templates_of(workload)]


def pod_of(objects, component):
    """The pods of a component that has one kind of them: `gateway`, `engine`, `redis` or `model`."""
    [spec] = [
        template["spec"]
        for template in pod_templates(objects)
        if template["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    return spec


def container_of(objects, component):
    [container] = pod_of(objects, component)["containers"]
    return container


def alerts_of(values):
    """The group of alerts that the chart makes."""
    [group] = render(values)["PrometheusRule", "release-callgate-gateway"]["spec"]["groups"]
    return group


def expanded_arguments(values, command, variables):
    """The arguments of each container that runs `command`, as Kubernetes expands them."""
    containers = [c for template in pod_templates(render(values)) for c in template["spec"]["containers"]]
    return [
        [re.sub(r"\$\((\w+)\)", lambda variable: variables[variable[1]], word) for word in c["args"]]
        for c in containers
        if c.get("command") == command
    ]


def read_by_engine(python, program, lines, **environment):
    """What an engine's own parser, which `program` runs in a Python of its own, makes of each line."""
    done = subprocess.run(
        [str(python), "-c", program],
        env={**os.environ, **environment},
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def settings_of(objects, environment=None):
    [config] = [o for o in objects.values() if "callgate.toml" in o.get("data", {})]
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(config["data"]["callgate.toml"])
        file.flush()
        return load(config=Path(file.name), environment=environment or {})
