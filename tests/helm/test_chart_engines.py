"""What the chart runs beside the gateways: engines, who may reach whom, and pods that call as clients do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from fake_runtime import FakeRuntime
from rendered_chart import (
    FROM_OUTSIDE,
    OPEN_ENGINES,
    RUNNING_ENGINES,
    TOOLSETS,
    VLLM,
    VLLM_ON_CPUS,
    render,
    settings_of,
)
from serving import served

from gateway.app import create_app
from gateway.settings import Settings
from runtime.engines.settings import PluginSettings

KEY = "a-key-of-this-test"


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
