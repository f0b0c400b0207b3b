"""The chart in a cluster: installed, tested, upgraded and rolled back while clients call, and removed.

`make test-cluster IMAGE=REGISTRY/callgate:TAG` runs it in the cluster of KUBECONFIG, in a namespace of its own. Two
gateways with the tiny model need 3 GB of memory.
"""

import json
import os
import shutil
import subprocess
import uuid

import pytest
import yaml
from rendered_chart import installed
from values_table import CHART

IMAGE = os.environ.get("CALLGATE_CLUSTER_IMAGE", "")
WAIT = ("--wait", "--timeout", "10m")

pytestmark = [
    pytest.mark.skipif(not IMAGE, reason="there is no cluster; `make test-cluster IMAGE=…` names its image"),
    pytest.mark.timeout(1800),
]

VALUES = {
    "image": {"repository": IMAGE.rpartition(":")[0], "tag": IMAGE.rpartition(":")[2]},
    "gateway": {
        "replicas": 2,
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "8Gi"}},
    },
    "redis": {"persistence": {"enabled": False}},
    "toolsets": {"shop": {"tools": [{"name": "refund", "parameters": {"type": "object"}}]}},
}

CLIENTS = """
import http.client, json, os, threading, time
faults, num_answered, start = [], 0, time.time()
body = json.dumps({"model": "demo", "messages": [{"role": "user", "content": "Refund it."}], "toolset": "shop",
                   "tool_choice": "required", "max_tokens": 40})
headers = {"Authorization": "Bearer " + os.environ["KEY"].split()[0], "Content-Type": "application/json"}
def call(keeps):
    global num_answered
    connection = http.client.HTTPConnection("release-callgate", timeout=120)
    while not os.path.exists("/tmp/stop") and time.time() < start + 1200:
        try:
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            json.loads(json.loads(text)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
            num_answered += 1
        except Exception as fault:
            faults.append(repr(fault))
            connection.close()
        if not keeps:
            connection.close()
threads = [threading.Thread(target=call, args=(keeps,)) for keeps in (True, True, False)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps({"answered": num_answered, "faults": faults}))
"""


def kubectl(*words: str, text: str | None = None) -> str:
    return run("kubectl", *words, text=text)


def run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def namespace():
    """A namespace that enforces the restricted Pod Security Standard."""
    assert shutil.which("kubectl"), "kubectl is not installed"
    name = f"callgate-{uuid.uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    try:
        kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
        yield name
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def helm(namespace, tmp_path):
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES), "utf-8")

    def call(command: str, *options: str) -> str:
        chart = [str(CHART), "--values", str(values)] if command in {"install", "upgrade"} else []
        return run(installed("helm"), "--namespace", namespace, command, "release", *chart, *options)

    return call


def clients(namespace: str) -> str:
    """A pod that calls the gateways until it has a file `/tmp/stop`."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    key = {"secretKeyRef": {"name": "release-callgate-keys", "key": "api-keys"}}
    container = {
        "name": "clients",
        "image": IMAGE,
        "command": ["python", "-c", CLIENTS],
        "env": [{"name": "KEY", "valueFrom": key}],
        "securityContext": restricted,
    }
    spec = {
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "clients"}, "spec": spec}
    return kubectl("--namespace", namespace, "apply", "-f", "-", text=json.dumps(pod))


def secrets_of(namespace: str) -> dict:
    listed = json.loads(kubectl("--namespace", namespace, "get", "secrets", "-o", "json"))["items"]
    return {each["metadata"]["name"]: each["data"] for each in listed if each["type"] == "Opaque"}


def test_clients_lose_no_request_while_a_release_is_upgraded_and_rolled_back(namespace, helm):
    helm("install", *WAIT)
    helm("test")
    secrets = secrets_of(namespace)
    clients(namespace)
    kubectl("--namespace", namespace, "wait", "--for=condition=Ready", "pod/clients", "--timeout=60s")
    helm("upgrade", "--set", "logLevel=warning", *WAIT)
    helm("rollback", *WAIT)
    kubectl("--namespace", namespace, "exec", "clients", "--", "touch", "/tmp/stop")
    succeeded = "--for=jsonpath={.status.phase}=Succeeded"
    kubectl("--namespace", namespace, "wait", succeeded, "pod/clients", "--timeout=200s")
    counts = json.loads(kubectl("--namespace", namespace, "logs", "clients"))
    print(counts)
    assert counts["answered"] > 0
    assert counts["faults"] == []
    assert secrets_of(namespace) == secrets
    helm("uninstall", "--wait")
    assert secrets_of(namespace) == {}
