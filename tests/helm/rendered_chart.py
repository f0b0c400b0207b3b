"""The chart as the real helm renders it, with values that people may set."""

import shutil
import subprocess
import sys
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


def pod_templates(objects):
    workloads = [o["spec"]["template"] for o in objects.values() if "template" in o.get("spec", {})]
    return workloads + [o for o in objects.values() if o["kind"] == "Pod"]


def settings_of(objects, tmp_path, environment=None):
    [config] = [o for o in objects.values() if "callgate.toml" in o.get("data", {})]
    path = tmp_path / "callgate.toml"
    path.write_text(config["data"]["callgate.toml"], "utf-8")
    return load(config=path, environment=environment or {})
