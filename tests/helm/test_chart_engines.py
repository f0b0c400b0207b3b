"""What the chart runs beside the gateways: engines, and who may reach whom."""

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest
from rendered_chart import (
    CHART,
    DOWNLOADED,
    FROM_OUTSIDE,
    LLAMA_SERVERS,
    NODES,
    OPEN_ENGINES,
    RUNNING_ENGINES,
    SCALED_BY_QUEUE,
    SCALED_ENGINES,
    SCALED_NODES,
    SGLANG,
    SGLANG_ADDED,
    SGLANG_ON_NODES,
    VLLM,
    VLLM_ON_CPUS,
    container_of,
    pod_of,
    render,
    run_helm,
    settings_of,
)

from runtime.engines import plugin_folder
from runtime.engines.engine_kinds import ENGINE_KINDS
from runtime.engines.settings import PluginSettings

PRIVATE = {"10.0.0.0/8", "fc00::/7"}
"""Of each family of addresses, a network that is not the internet."""


@pytest.mark.parametrize(
    ("values", "kind", "num_engines"), [(VLLM, "vllm", 2), (SGLANG, "sglang", 3)], ids=["vllm", "sglang"]
)
def test_the_gateways_know_each_engine_by_its_name(values, kind, num_engines):
    objects = render(values)
    settings = settings_of(objects)
    engines = objects["StatefulSet", "release-callgate-engine"]
    service = objects["Service", "release-callgate-engine"]
    port = container_of(objects, "engine")["ports"][0]["containerPort"]
    assert (settings.engine, settings.model) == (kind, "Qwen/Qwen3-32B")
    assert engines["spec"]["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert settings.engine_url == tuple(
        f"http://{engines['metadata']['name']}-{number}.{service['metadata']['name']}:{port}"
        for number in range(num_engines)
    )


@pytest.mark.parametrize(
    ("values", "variable"), [(VLLM, "VLLM_API_KEY"), (SGLANG, "SGLANG_API_KEY")], ids=["vllm", "sglang"]
)
def test_engines_and_gateways_share_the_store_the_secret_and_a_key(values, variable):
    objects = render(values)
    pod = pod_of(objects, "gateway")
    theirs = {entry["name"]: entry for entry in container_of(objects, "engine")["env"]}
    ours = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
    for name in ("CALLGATE_SECRET", "CALLGATE_STORE", "CALLGATE_STORE_PASSWORD"):
        assert theirs[name] == ours[name]
    plugin = {name: "x" * 20 for name in theirs if name.startswith("CALLGATE_")}
    plugin |= {"CALLGATE_GRAMMAR_CACHE_BYTES": theirs["CALLGATE_GRAMMAR_CACHE_BYTES"]["value"]}
    plugin |= {"CALLGATE_STORE": "redis://redis/0"}
    assert PluginSettings.from_environment(plugin).cache_bytes == 2**30
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == "engine-key"]
    [mount] = [mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "engine-key"]
    key = theirs[variable]["valueFrom"]["secretKeyRef"]
    assert (volume["secret"]["secretName"], volume["secret"]["items"][0]["key"]) == (key["name"], key["key"])
    path = f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"
    assert settings_of(objects).engine_key_file == path


def test_sglang_gets_its_key_as_an_argument_since_it_reads_none_from_a_variable():
    spec = pod_of(render(SGLANG), "engine")
    [container] = spec["containers"]
    assert container["command"] == ["sglang", "serve"]
    assert container["args"] == [
        *("Qwen/Qwen3-32B", "--host=0.0.0.0", "--port=8000", "--api-key=$(SGLANG_API_KEY)"),
        *("--grammar-backend=xgrammar", "--incremental-streaming-output", "--enable-metrics"),
        *("--tensor-parallel-size=2", "--dtype=bfloat16", "--mem-fraction-static=0.8"),
    ]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 2}
    assert spec["terminationGracePeriodSeconds"] == 100


def test_the_probes_of_sglang_wait_for_the_token_that_its_health_route_generates():
    """It takes a second at least, and the route gives up after 20 s."""
    container = container_of(render(SGLANG), "engine")
    probes = {kind: container[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["httpGet"]["path"] for probe in probes.values()} == {"/health"}
    assert all(probe["timeoutSeconds"] > 1 for probe in probes.values())
    assert 20 < probes["liveness"]["timeoutSeconds"] < probes["liveness"]["periodSeconds"]
    assert probes["startup"]["failureThreshold"] * probes["startup"]["periodSeconds"] == 30 * 60


def test_an_engine_that_ends_lets_its_requests_go_on():
    """Without --shutdown-timeout, vLLM aborts them at once."""
    values = "engine: {kind: vllm, vllm: {terminationGracePeriodSeconds: 100}}\nruntime: {model: a/b}"
    spec = render(values)["StatefulSet", "release-callgate-engine"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert (pod["terminationGracePeriodSeconds"], spec["minReadySeconds"]) == (100, 30)
    assert "--shutdown-timeout=85" in container["args"]


def test_an_engine_gets_its_accelerators_and_vllm_is_told():
    container = container_of(render(VLLM), "engine")
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert container["args"][0] == "Qwen/Qwen3-32B"
    assert {"--tensor-parallel-size=4", "--dtype=bfloat16", "--max-model-len=32768"} < set(container["args"])
    [structured] = [argument for argument in container["args"] if argument.startswith("--structured")]
    assert json.loads(structured.partition("=")[2]) == {"backend": "xgrammar"}


def test_the_hubs_token_reaches_whoever_reads_models_and_nobody_else():
    objects = render(VLLM)
    wanted = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    having = {
        name
        for (_, name), workload in objects.items()
        if "template" in workload.get("spec", {})
        and wanted in workload["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert having == {"release-callgate-gateway", "release-callgate-engine"}


def test_engines_that_run_already_are_asked_with_their_key():
    settings = settings_of(render(RUNNING_ENGINES))
    assert settings.engine_url == ("http://a.models:8000", "https://b.models")
    assert (settings.engine_model, settings.engine_key_file) == ("qwen", "/etc/callgate/engine/api-key")
    alone = settings_of(render(OPEN_ENGINES))
    assert (settings.engine, alone.engine) == ("vllm", "sglang")
    assert (alone.engine_key_file, alone.max_waiting) == (None, 1000)


def test_llama_servers_are_asked_as_such_and_need_no_store():
    settings = settings_of(render(LLAMA_SERVERS))
    assert (settings.engine, settings.engine_url) == ("llama_server", ("http://llama.models:8080",))
    assert settings.model == "/models/smollm2"


def test_the_chart_knows_every_kind_of_engine_and_which_of_them_need_a_store():
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    servers = schema["properties"]["engine"]["properties"]["server"]["enum"]
    assert set(servers) == ENGINE_KINDS.keys(), "correct engine.server in values.schema.json"
    line = "engine: {kind: external, server: NAME, urls: ['http://a:1']}\nredis: {enabled: false}"
    refused = {
        name: "a shared store" in run_helm("template release", line.replace("NAME", name)).stderr
        for name in ENGINE_KINDS
    }
    assert refused == {name: kind.has_plugin for name, kind in ENGINE_KINDS.items()}, "correct _helpers.tpl"


def workers_and_leader(objects):
    spec = objects["LeaderWorkerSet", "release-callgate-engine"]["spec"]
    group = spec["leaderWorkerTemplate"]
    leader, worker = (group[f"{role}Template"]["spec"]["containers"][0] for role in ("leader", "worker"))
    return spec, leader, worker


def test_an_engine_on_several_nodes_is_one_group_of_pods():
    """As https://docs.vllm.ai/en/latest/deployment/frameworks/lws.html has it, with multiprocessing."""
    spec, leader, worker = workers_and_leader(render(NODES))
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 3)
    shared = {
        *("--tensor-parallel-size=8", "--pipeline-parallel-size=3", "--nnodes=3"),
        *("--distributed-executor-backend=mp", "--master-addr=$(LWS_LEADER_ADDRESS)"),
    }
    assert shared < set(leader["args"])
    assert shared < set(worker["args"])
    assert set(leader["args"]) - set(worker["args"]) == {"--host=0.0.0.0", "--port=8000", "--node-rank=0"}
    assert set(worker["args"]) - set(leader["args"]) == {"--headless", "--node-rank=$(LWS_WORKER_INDEX)"}
    assert leader["resources"] == worker["resources"]
    assert leader["resources"]["limits"] == {"nvidia.com/gpu": 8}


def test_all_pods_of_sglang_share_the_tensor_parallelism_and_read_grammars():
    """The plugin knows no pipeline. Each rank of SGLang makes its own grammars; one that did not would mask nothing."""
    spec, leader, worker = workers_and_leader(render(SGLANG_ON_NODES))
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (2, 3)
    shared = {
        *("--tensor-parallel-size=24", "--nnodes=3", "--dist-init-addr=$(LWS_LEADER_ADDRESS):20000"),
        "--grammar-backend=xgrammar",
    }
    assert shared < set(leader["args"])
    assert shared < set(worker["args"])
    assert set(leader["args"]) - set(worker["args"]) == {
        *("--host=0.0.0.0", "--port=8000", "--node-rank=0", "--api-key=$(SGLANG_API_KEY)")
    }
    assert set(worker["args"]) - set(leader["args"]) == {"--node-rank=$(LWS_WORKER_INDEX)"}
    theirs = {entry["name"] for entry in worker["env"]}
    assert {entry["name"] for entry in leader["env"]} - theirs == {"SGLANG_API_KEY"}
    assert {"CALLGATE_SECRET", "CALLGATE_STORE", "CALLGATE_STORE_PASSWORD"} < theirs


def test_workers_of_an_engine_hold_no_secret_of_callgate_and_open_no_port():
    _, leader, worker = workers_and_leader(render(NODES))
    assert "ports" not in worker
    assert not {name for name in worker if name.endswith("Probe")}
    theirs = {entry["name"] for entry in worker["env"]}
    assert {entry["name"] for entry in leader["env"]} - theirs == {
        *("CALLGATE_SECRET", "CALLGATE_STORE", "CALLGATE_STORE_PASSWORD", "CALLGATE_GRAMMAR_CACHE_BYTES"),
        "VLLM_API_KEY",
    }
    assert PluginSettings.from_environment(dict.fromkeys(theirs, "x")) is None


def test_gateways_know_the_leaders_by_the_names_that_the_controller_gives_them():
    objects = render(NODES)
    assert ("Service", "release-callgate-engine") not in objects, "the controller makes one of this name"
    assert settings_of(objects).engine_url == (
        "http://release-callgate-engine-0.release-callgate-engine:8000",
        "http://release-callgate-engine-1.release-callgate-engine:8000",
    )


@pytest.mark.parametrize(
    ("values", "image", "replaced"),
    [
        (DOWNLOADED, "vllm/vllm-openai:v0.32.0", []),
        (SGLANG_ADDED, "lmsysorg/sglang:v0.5.23", ["xgrammar"]),
    ],
    ids=["vllm", "sglang"],
)
def test_the_plugin_is_added_to_an_image_of_others(values, image, replaced, tmp_path):
    """The command as the chart has it, and the path under which the engine's Python then finds the plugin."""
    pod = pod_of(render(values), "engine")
    [init], [engine] = pod["initContainers"], pod["containers"]
    assert (init["image"], engine["image"]) == ("callgate:0.1.0", image)
    words, (folder, *packages) = init["command"][:3], init["command"][3:]
    assert (words, packages) == (["python", "-m", plugin_folder.__name__], replaced)
    plugin_folder.fill(tmp_path, [distribution("callgate")], packages)
    [on_start] = tmp_path.glob("path/sitecustomize.py")
    environment = {entry["name"]: entry.get("value") for entry in engine["env"]}
    assert environment["PYTHONPATH"] == str(Path(folder) / on_start.parent.relative_to(tmp_path))
    written, read = ([m for m in c["volumeMounts"] if m["name"] == "plugin"] for c in (init, engine))
    assert written[0]["mountPath"] == read[0]["mountPath"], "what is in the folder knows its place"
    assert Path(folder).is_relative_to(read[0]["mountPath"])


def test_a_downloaded_model_is_read_where_the_job_has_put_it_and_the_hub_is_not_asked():
    objects = render(DOWNLOADED)
    job = objects["Job", "release-callgate-model"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade,pre-rollback"
    for component in ("model", "gateway", "engine"):
        spec, container = pod_of(objects, component), container_of(objects, component)
        environment = {entry["name"]: entry for entry in container["env"]}
        [mount] = [m for m in container["volumeMounts"] if m["name"] == "hub"]
        assert mount["mountPath"] == environment["HF_HOME"]["value"]
        assert {"name": "hub", "persistentVolumeClaim": {"claimName": "hub-models"}} in spec["volumes"]
        is_reader = component != "model"
        assert mount.get("readOnly", False) == is_reader
        assert ("HF_HUB_OFFLINE" in environment) == is_reader
        assert ("HF_TOKEN" in environment) != is_reader


def test_evictions_leave_engines():
    whole = render(NODES)["PodDisruptionBudget", "release-callgate-engine"]["spec"]
    assert whole["maxUnavailable"] == 1
    assert whole["selector"]["matchExpressions"][0]["values"] == ["engine", "engine-worker"]
    assert ("PodDisruptionBudget", "release-callgate-engine") not in render(VLLM)


@pytest.mark.parametrize(
    ("values", "target", "replicas"),
    [
        (SCALED_ENGINES, ("StatefulSet", "release-callgate-engine"), (2, 5)),
        (SCALED_NODES, ("LeaderWorkerSet", "release-callgate-engine"), (1, 4)),
        (SGLANG, ("StatefulSet", "release-callgate-engine"), (1, 3)),
        (SCALED_BY_QUEUE, ("Deployment", "release-callgate-gateway"), (1, 3)),
    ],
)
def test_engines_are_scaled_where_they_are(values, target, replicas):
    objects = render(values)
    [spec] = [o["spec"] for (kind, _), o in objects.items() if kind == "ScaledObject"]
    assert (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) == target
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == replicas
    [trigger] = spec["triggers"]
    assert trigger["metadata"]["ignoreNullValues"] == "false", "no values are no reason to stop engines"
    assert all(isinstance(value, str) for value in trigger["metadata"].values()), "KEDA reads texts only"
    if target[0] != "Deployment":
        assert len(settings_of(objects).engine_url) == replicas[1]


def allowed_edges(objects):
    """Who may open a connection to whom, by component: both sides have to admit it; port 0 is any."""
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
                if "ipBlock" in peer:
                    name = "internet"
                    assert PRIVATE & set(peer["ipBlock"]["except"]), "what is private is not the internet"
                yield from ((name, port["port"]) for port in rule.get("ports", [{"port": 0}]))

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


def test_network_policies_admit_exactly_what_is_needed():
    dns = {(pod, "anybody", 53) for pod in ("client", "gateway", "engine")}
    hub = {(pod, "internet", 443) for pod in ("gateway", "engine")}
    inside = {
        ("client", "gateway", 8080),
        ("gateway", "redis", 6379),
        ("engine", "redis", 6379),
        ("gateway", "engine", 8000),
    }
    assert set(allowed_edges(render(VLLM))) == dns | hub | inside | {("anybody", "gateway", 8080)}
    group = {
        ("engine", "engine-worker", 0),
        ("engine-worker", "engine", 0),
        ("engine-worker", "engine-worker", 0),
    }
    assert set(allowed_edges(render(SGLANG))) == set(allowed_edges(render(VLLM)))
    workers = {("engine-worker", "anybody", 53), ("engine-worker", "internet", 443)}
    assert set(allowed_edges(render(SGLANG_ON_NODES))) - set(allowed_edges(render(NODES))) == {
        ("engine-worker", "redis", 6379)
    }
    assert set(allowed_edges(render(NODES))) == (
        dns | hub | inside | group | workers | {("anybody", "gateway", 8080)}
    )
    assert set(allowed_edges(render(LLAMA_SERVERS))) == {
        ("client", "anybody", 53),
        ("client", "gateway", 8080),
        ("anybody", "gateway", 8080),
        ("gateway", "anybody", 53),
        ("gateway", "internet", 443),
        ("gateway", "anybody", 8080),
    }
    downloads = {("model", "anybody", 53), ("model", "internet", 443)}
    assert set(allowed_edges(render(DOWNLOADED))) == dns | inside | downloads | {("anybody", "gateway", 8080)}
    found = set(allowed_edges(render(FROM_OUTSIDE)))
    assert {edge for edge in found if edge[1] == "gateway"} == {
        ("outside", "gateway", 8080),
        ("client", "gateway", 8080),
    }
    assert not any(edge[2] == 443 for edge in allowed_edges(render(VLLM_ON_CPUS)))
