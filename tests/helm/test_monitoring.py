"""The dashboard and the alerts of the chart, against the metrics that the gateway serves."""

import asyncio
import json
import re
from itertools import product
from types import SimpleNamespace

import promql_parser
import pytest
import yaml
from fake_runtime import ELSEWHERE, LOAD, FakeRuntime
from prometheus_client.parser import text_string_to_metric_families
from rendered_chart import (
    CHART,
    MONITORED,
    SCALED_BY_QUEUE,
    SCALED_ENGINES,
    SGLANG,
    alerts_of,
    pod_templates,
    render,
    run_helm,
    settings_of,
)

from gateway.settings import Settings
from gateway.telemetry.engine_measures import EngineMeasures
from gateway.telemetry.exporters import open_meters
from gateway.telemetry.metrics import METRICS, Kind, Metrics
from runtime.protocol import Health
from toolspecs.stores import open_store

OF_TARGETS = {"job", "instance", "namespace"}
"""Labels that Prometheus adds to all that it scrapes."""


async def served():
    """The labels of every series that a gateway can serve, by its name."""
    meters = open_meters(Settings())
    meter = meters.provider.get_meter("callgate")
    metrics, measures = Metrics(meter), EngineMeasures(meter)
    for each in METRICS:
        labels = dict.fromkeys(each.labels, "x")
        if each.kind is Kind.COUNTER:
            metrics.add(each, 1, labels)
        elif each.kind is Kind.HISTOGRAM:
            metrics.record(each, 1, labels)
    runtime = FakeRuntime(health_now=Health(is_ready=True, loads=(LOAD,), engines=(ELSEWHERE,)))
    store = open_store("sqlite://:memory:")
    async with measures.of(runtime, SimpleNamespace(num_waiting=0, num_bytes=0), store):
        text = (await asyncio.to_thread(meters.text)).decode()
    families = text_string_to_metric_families(text)
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def panels():
    dashboard = json.loads((CHART / "dashboards" / "callgate.json").read_text("utf-8"))
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def parsed_of(query):
    """A query, as of an alert or with a variable of Grafana's in it."""
    return promql_parser.parse(query.replace("$__rate_interval", "5m"))


def source_of(selector):
    """The namespace and the job that a selection is of; None where it is of all."""
    of = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
    return of.get("namespace"), of.get("job")


def selectors(expression):
    """The selections of series in a parsed query."""
    match expression:
        case promql_parser.VectorSelector():
            yield expression
        case promql_parser.MatrixSelector():
            yield expression.vector_selector
        case promql_parser.BinaryExpr():
            yield from selectors(expression.lhs)
            yield from selectors(expression.rhs)
        case promql_parser.AggregateExpr() | promql_parser.ParenExpr() | promql_parser.UnaryExpr():
            yield from selectors(expression.expr)
        case promql_parser.Call():
            for argument in expression.args:
                yield from selectors(argument)
        case _:
            assert isinstance(expression, promql_parser.NumberLiteral), expression


def groupings(expression):
    """Each aggregation in a parsed query that groups, with its labels."""
    match expression:
        case promql_parser.BinaryExpr():
            yield from groupings(expression.lhs)
            yield from groupings(expression.rhs)
        case promql_parser.AggregateExpr():
            if expression.modifier is not None:
                yield expression, set(expression.modifier.labels)
            yield from groupings(expression.expr)
        case promql_parser.ParenExpr():
            yield from groupings(expression.expr)
        case promql_parser.Call():
            for argument in expression.args:
                yield from groupings(argument)


def check(query, known):
    """Fail unless every series and label of a query can be served."""
    parsed = parsed_of(query)
    found = list(selectors(parsed))
    assert found, query
    for selector in found:
        assert selector.name in known, f"{selector.name} is not served: {query}"
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= known[selector.name] | OF_TARGETS, f"{labels}: {query}"
    for aggregation, labels in groupings(parsed):
        for selector in selectors(aggregation):
            assert labels <= known[selector.name] | OF_TARGETS, f"{labels}: {query}"


async def test_every_query_of_the_dashboard_can_be_answered():
    known = await served()
    for panel in panels():
        for target in panel["targets"]:
            check(target["expr"], known)
    shown = {
        metric_of(s.name) for p in panels() for t in p["targets"] for s in selectors(parsed_of(t["expr"]))
    }
    own = {metric_of(name) for name in known if name.startswith("callgate_")}
    assert own - shown == set(), "every metric of our own has its panel"


def metric_of(series):
    """The name of the metric that a series is of."""
    return re.sub("_(bucket|count|sum)$", "", series)


def test_the_dashboard_shows_no_other_service():
    """Other services have some of these metrics too; all jobs are those of gateways, and not all of Prometheus'.

    Releases of one name in two namespaces have the same job. All namespaces include none, as outside of a cluster.
    """
    for panel in panels():
        for target in panel["targets"]:
            for selector in selectors(parsed_of(target["expr"])):
                assert source_of(selector) == ("$namespace", "$job"), target["expr"]
    dashboard = json.loads((CHART / "dashboards" / "callgate.json").read_text("utf-8"))
    all_values = {each["name"]: each.get("allValue") for each in dashboard["templating"]["list"]}
    assert (all_values["job"], all_values["namespace"]) == (None, ".*")


def test_grafana_takes_rates_over_more_than_two_scrapes():
    """`$__rate_interval` is four times the interval of a query: by default 60 s, of scrapes every 30 s."""
    scraped = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))["metrics"]["serviceMonitor"][
        "interval"
    ]
    assert {target["interval"] for panel in panels() for target in panel["targets"]} == {scraped}


@pytest.mark.parametrize(
    "query",
    ["callgate_engine_redy", 'callgate_engine_ready{modle="x"}', "sum by (modle) (callgate_engine_ready)"],
)
async def test_a_query_of_something_else_would_be_found(query):
    """The check above can fail."""
    known = await served()
    with pytest.raises(AssertionError):
        check(query, known)


async def test_every_alert_can_fire_and_says_what_to_do():
    known = await served()
    for rule in alerts_of(MONITORED)["rules"]:
        check(rule["expr"], known)
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith((".", "?"))
        for selector in selectors(parsed_of(rule["expr"])):
            assert source_of(selector) == ("here", "release-callgate"), "not those of another release"


def test_every_alert_is_listed_and_has_its_section_of_the_runbook():
    runbook = "https://git.example.org/operations.md"
    values = MONITORED.replace("prometheusRule: {", f"prometheusRule: {{runbookURL: {runbook!r}, ")
    rules = alerts_of(values)["rules"]
    alerts = [rule["alert"] for rule in rules]
    text = (CHART.parents[1] / "docs" / "operations.md").read_text("utf-8")
    _, _, listed = text.partition("\n## Alerts and dashboard\n")
    rows = dict(re.findall(r"^\| `(Callgate\w+)` \| (\w+) \|", listed, re.MULTILINE))
    assert rows == {rule["alert"]: rule["labels"]["severity"] for rule in rules}
    assert re.findall(r"^### (Callgate\w+)$", text, re.MULTILINE) == alerts
    links = [rule["annotations"]["runbook_url"] for rule in rules]
    assert links == [f"{runbook}#{alert.lower()}" for alert in alerts]
    assert "runbook_url" not in alerts_of(MONITORED)["rules"][0]["annotations"]


async def test_the_queries_by_which_engines_are_scaled_can_be_answered():
    known = await served()
    for values in (SCALED_ENGINES, SCALED_BY_QUEUE, SGLANG):
        [scaled] = [o for (kind, _), o in render(values).items() if kind == "ScaledObject"]
        [trigger] = scaled["spec"]["triggers"]
        check(trigger["metadata"]["query"], known)
        assert '{namespace="here", job="release-callgate"}' in trigger["metadata"]["query"]


@pytest.mark.parametrize(("values", "fewest"), [(SCALED_ENGINES, 2), (SGLANG, 1)], ids=["vllm", "sglang"])
async def test_engines_that_are_not_started_are_not_missed(values, fewest):
    """With KEDA, gateways know the names of more engines than there are."""
    [rule] = [rule for rule in alerts_of(values)["rules"] if rule["alert"] == "CallgateEngineDown"]
    check(rule["expr"], await served())
    assert rule["expr"].endswith(f"< {fewest}"), "the fewest that KEDA keeps"


def test_prometheus_finds_the_gateways_and_has_their_key():
    objects = render(MONITORED)
    monitor = objects["ServiceMonitor", "release-callgate-gateway"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    services = [o for (kind, _), o in objects.items() if kind == "Service"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    [service] = [o for o in services if wanted <= o["metadata"]["labels"].items()]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert service["metadata"]["name"] == "release-callgate", "by which the operator names the job"
    credentials = endpoint["authorization"]["credentials"]
    assert credentials["key"] in objects["Secret", credentials["name"]]["data"]
    [pod] = [
        t
        for t in pod_templates(objects)
        if t["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    ]
    [volume] = [v for v in pod["spec"]["volumes"] if v["name"] == "metrics-key"]
    assert volume["secret"]["secretName"] == credentials["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["spec"]["containers"][0]["volumeMounts"]}
    path = f"{mounts['metrics-key']}/{volume['secret']['items'][0]['path']}"
    assert settings_of(objects).metrics_key_file == path


def test_grafana_reads_the_dashboard_as_it_is_in_the_file():
    config = render(MONITORED)["ConfigMap", "release-callgate-dashboard"]
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    ids = [panel["id"] for panel in json.loads(config["data"]["callgate.json"])["panels"]]
    assert len(set(ids)) == len(ids) > 0


def test_no_panel_covers_another():
    """A panel that is added must move those below it down."""
    dashboard = json.loads((CHART / "dashboards" / "callgate.json").read_text("utf-8"))
    taken = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        )
        for cell in cells:
            assert cell[0] < 24, f"{panel['title']} is too wide"
            assert cell not in taken, f"{panel['title']} covers {taken[cell]}"
            taken[cell] = panel["title"]


def test_without_metrics_there_is_nothing_of_them():
    objects = render("metrics: {enabled: false}")
    assert not settings_of(objects).metrics
    assert "metrics-key" not in yaml.safe_dump([*objects.values()])
    done = run_helm("template release", "metrics: {enabled: false, dashboard: {enabled: true}}")
    assert "metrics.enabled" in done.stderr


def test_by_default_nothing_needs_kinds_that_a_cluster_may_not_know():
    kinds = {kind for kind, _ in render("{}")}
    assert not kinds & {"ServiceMonitor", "PrometheusRule"}
