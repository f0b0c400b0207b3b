"""Whatever an object of the chart refers to exists: pods, secrets and their keys, volumes, ports."""

from rendered_chart import pod_templates, templates_of

COMPONENT = "app.kubernetes.io/component"


def selector_of(workload):
    """By which labels an object finds pods: of each, the values that it may have."""
    spec = workload.get("spec", {})
    match workload["kind"]:
        case "Service":
            selector = {"matchLabels": spec["selector"]}
        case "NetworkPolicy":
            selector = spec["podSelector"]
        case "PodDisruptionBudget" | "Deployment" | "StatefulSet":
            selector = spec["selector"]
        case _:
            return None
    wanted = {label: {value} for label, value in selector["matchLabels"].items()}
    return wanted | {each["key"]: set(each["values"]) for each in selector.get("matchExpressions", [])}


def chosen(selector, templates):
    """The pod templates that a selector finds."""
    return [
        template
        for template in templates
        if all(template["metadata"]["labels"].get(label) in values for label, values in selector.items())
    ]


def test_selectors_match_the_pods_they_mean_and_no_others(variant):
    templates = pod_templates(variant)
    components = {template["metadata"]["labels"][COMPONENT] for template in templates}
    for workload in variant.values():
        if selector := selector_of(workload):
            found = {t["metadata"]["labels"][COMPONENT] for t in chosen(selector, templates)}
            assert found, "it matches nothing"
            assert found == selector[COMPONENT] & components


def test_a_workloads_selector_finds_its_own_pods(variant):
    for workload in variant.values():
        if workload["kind"] in {"Deployment", "StatefulSet"}:
            assert chosen(selector_of(workload), templates_of(workload)) == templates_of(workload)


def containers_of(spec):
    return [*spec.get("initContainers", []), *spec["containers"]]


def test_every_volume_that_is_mounted_exists(variant):
    for workload in variant.values():
        claims = {c["metadata"]["name"] for c in workload.get("spec", {}).get("volumeClaimTemplates", [])}
        for spec in (template["spec"] for template in templates_of(workload)):
            volumes = {volume["name"] for volume in spec.get("volumes", [])} | claims
            for container in containers_of(spec):
                assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


def used_secrets(spec):
    """The secrets that a pod uses, as volumes and in the environment: names, and the keys in them."""
    for volume in (v["secret"] for v in spec.get("volumes", []) if "secret" in v):
        yield from ((volume["secretName"], item["key"]) for item in volume["items"])
    for env in (env for container in containers_of(spec) for env in container.get("env", [])):
        if secret := env.get("valueFrom", {}).get("secretKeyRef"):
            yield secret["name"], secret["key"]


def test_every_secret_that_is_used_exists_and_has_the_key(variant):
    others = {
        "keys": {"api-keys", "grammar-secret"},
        "store": {"url"},
        "engines": {"api-key"},
        "hub": {"token"},
    }
    made = {
        name: set(o.get("data") or o["stringData"]) for (kind, name), o in variant.items() if kind == "Secret"
    }
    for template in pod_templates(variant):
        for name, key in used_secrets(template["spec"]):
            assert key in (made | others)[name]


def test_every_configmap_that_is_used_exists(variant):
    made = {name for kind, name in variant if kind == "ConfigMap"}
    for template in pod_templates(variant):
        volumes = template["spec"].get("volumes", [])
        assert {volume["configMap"]["name"] for volume in volumes if "configMap" in volume} <= made


def ports_of(templates):
    """Names and numbers of the ports that containers open."""
    ports = [p for t in templates for c in t["spec"]["containers"] for p in c.get("ports", [])]
    return {port["name"] for port in ports} | {port["containerPort"] for port in ports}


def test_services_probes_and_policies_lead_to_ports_that_are_open(variant):
    templates = pod_templates(variant)
    for workload in variant.values():
        if workload["kind"] == "Service":
            targets = {port["targetPort"] for port in workload["spec"]["ports"]}
            assert targets <= ports_of(chosen(selector_of(workload), templates))
        if workload["kind"] == "NetworkPolicy":
            admitted = {
                p["port"] for rule in workload["spec"].get("ingress", []) for p in rule.get("ports", [])
            }
            assert admitted <= ports_of(chosen(selector_of(workload), templates))
    for template in templates:
        for container in template["spec"]["containers"]:
            probes = [container.get(f"{kind}Probe", {}) for kind in ("startup", "liveness", "readiness")]
            asked = {probe["httpGet"]["port"] for probe in probes if "httpGet" in probe}
            assert asked <= ports_of([template])


def test_ways_in_lead_to_ports_of_services(variant):
    services = {name: o["spec"]["ports"] for (kind, name), o in variant.items() if kind == "Service"}
    for (kind, _), workload in variant.items():
        if kind == "Ingress":
            for path in (path for rule in workload["spec"]["rules"] for path in rule["http"]["paths"]):
                backend = path["backend"]["service"]
                assert backend["port"]["name"] in {port["name"] for port in services[backend["name"]]}
        if kind == "HTTPRoute":
            for backend in (backend for rule in workload["spec"]["rules"] for backend in rule["backendRefs"]):
                assert backend["port"] in {port["port"] for port in services[backend["name"]]}


def test_whoever_is_scaled_exists_and_counts_no_replicas_itself(variant):
    for (kind, _), workload in variant.items():
        if kind in {"HorizontalPodAutoscaler", "ScaledObject"}:
            target = workload["spec"]["scaleTargetRef"]
            scaled = variant[target["kind"], target["name"]]
            assert scaled["apiVersion"] == target["apiVersion"]
            assert "replicas" not in scaled["spec"]
    scalers = [
        o["spec"]["scaleTargetRef"]["name"] for o in variant.values() if "scaleTargetRef" in o.get("spec", {})
    ]
    assert len(scalers) == len(set(scalers)), "two that scale one thing"
