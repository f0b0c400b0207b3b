"""The chart's alerts, in Prometheus' own rule tests: what makes each one fire, what it says, and what does not."""

import json
import subprocess
from dataclasses import dataclass, field

import yaml
from rendered_chart import MONITORED, SCALED_ENGINES, SGLANG, alerts_of, installed

RELEASE = {"namespace": "here", "job": "release-callgate"}
HTTP = "http_server_request_duration_seconds_count"
FIRST_TOKEN = "gen_ai_server_time_to_first_token_seconds_bucket"
READY, SEQUENCES = "callgate_engine_ready", "callgate_engine_sequences"
PATIENT = MONITORED.replace("prometheusRule: {", "prometheusRule: {firstTokenSeconds: 100, ")


def series(name, values, **labels):
    """A series of a scrape each half minute, in promtool's notation; of this release, if `labels` say nothing else."""
    named = {"gen_ai_request_model": "m"} if name.startswith("callgate_engine") else {}
    return {"series": name + selector({**RELEASE, **named, **labels}), "values": values}


def selector(labels):
    return "{" + ", ".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


def first_tokens(values_by_bound):
    return [series(FIRST_TOKEN, v, le=le, gen_ai_request_model="m") for le, v in values_by_bound.items()]


@dataclass(frozen=True)
class Trial:
    """Series after `minutes`; `fired` has the summary of each alert that fires, and its labels."""

    alert: str
    minutes: float
    given: list
    fired: dict = field(default_factory=dict)
    values: str = MONITORED


MODEL = {"gen_ai_request_model": "m"}
ENGINE = {**MODEL, "callgate_engine": "a:1"}
POD = {"pod": "gateway-1", "instance": "10.0.0.1:8080"}
IDLE, BUSY = "0x200", "0+3x200"
GONE = "No gateway can be scraped."
NO_ENGINE = "No engine takes requests for the model m."
ERRORS = "10% of the requests fail with a status of 500 or more, or in their stream."

TRIALS = {
    "no gateway": Trial("CallgateGone", 6, [], {GONE: {}}),
    "only a gateway of another release": Trial(
        "CallgateGone", 6, [series(READY, "1x200", job="x")], {GONE: {}}
    ),
    "a gateway whose engine is down": Trial("CallgateGone", 6, [series(READY, IDLE)]),
    "all engines down": Trial(
        "CallgateModelDown",
        3,
        [series(READY, IDLE, callgate_engine=name) for name in ("a:1", "b:1")],
        {NO_ENGINE: MODEL},
    ),
    "one gateway reaches one engine": Trial(
        "CallgateModelDown",
        3,
        [
            series(READY, IDLE, callgate_engine="a:1", instance="1"),
            series(READY, "1x200", callgate_engine="a:1", instance="2"),
        ],
    ),
    "one gateway without its store": Trial(
        "CallgateStoreDown",
        6,
        [
            series("callgate_store_ready", IDLE, **POD),
            series("callgate_store_ready", "1x200", pod="gateway-2"),
        ],
        {"The gateway gateway-1 cannot use its store.": POD},
    ),
    "the same, where gateways are no pods": Trial(
        "CallgateStoreDown",
        6,
        [series("callgate_store_ready", IDLE, instance="gateway:8080")],
        {"The gateway gateway:8080 cannot use its store.": {"instance": "gateway:8080"}},
    ),
    "one engine down": Trial(
        "CallgateEngineDown",
        16,
        [series(READY, IDLE, callgate_engine="a:1"), series(READY, "1x200", callgate_engine="b:1")],
        {"The engine a:1 of the model m takes no requests.": ENGINE},
    ),
    "one of two that KEDA keeps": Trial(
        "CallgateEngineDown",
        16,
        [series(READY, IDLE, callgate_engine="a:1"), series(READY, "1x200", callgate_engine="b:1")],
        {"Of the engines of the model m, 1 take requests.": MODEL},
        SCALED_ENGINES,
    ),
    "none, of the one that KEDA keeps": Trial(
        "CallgateEngineDown",
        16,
        [series(READY, IDLE, callgate_engine="a:1")],
        {"Of the engines of the model m, 0 take requests.": MODEL},
        SGLANG,
    ),
    "two of three that KEDA may start": Trial(
        "CallgateEngineDown",
        16,
        [
            series(READY, IDLE, callgate_engine="a:1"),
            *(series(READY, "1x200", callgate_engine=name) for name in ("b:1", "c:1")),
        ],
        values=SCALED_ENGINES,
    ),
    "streams that break off": Trial(
        "CallgateErrors",
        16,
        [
            series(HTTP, "0+9x200", http_response_status_code="200"),
            series(HTTP, "0+1x200", http_response_status_code="200", error_type="EngineBroke"),
        ],
        {ERRORS: {}},
    ),
    "mistakes of clients, and failures of another service": Trial(
        "CallgateErrors",
        16,
        [
            series(HTTP, "0+9x200", http_response_status_code="404"),
            series(HTTP, "0+90x200", http_response_status_code="500", error_type="500", job="shop"),
        ],
    ),
    "no requests": Trial("CallgateErrors", 16, [series(HTTP, "7x200", error_type="NotReady")]),
    "slow first tokens": Trial(
        "CallgateSlowFirstToken",
        30,
        first_tokens({"5": IDLE, "10": IDLE, "20": BUSY, "+Inf": BUSY}),
        {"One in twenty turns of m waits 19.5s for its first token.": MODEL},
    ),
    "slow first tokens, for the patient": Trial(
        "CallgateSlowFirstToken", 30, first_tokens({"10": IDLE, "20": BUSY, "+Inf": BUSY}), values=PATIENT
    ),
    "first tokens of minutes": Trial(
        "CallgateSlowFirstToken",
        30,
        first_tokens({"80": IDLE, "160": BUSY, "+Inf": BUSY}),
        {"One in twenty turns of m waits 2m 36s for its first token.": MODEL},
        PATIENT,
    ),
    "no turns": Trial(
        "CallgateSlowFirstToken", 30, first_tokens({"5": IDLE, "20": "9x200", "+Inf": "9x200"})
    ),
    "a queue in two gateways": Trial(
        "CallgateQueue",
        16,
        [
            series(SEQUENCES, f"{number}x200", callgate_state=state, instance=instance)
            for instance in ("1", "2")
            for state, number in (("running", 4), ("waiting", 5))
        ],
        {"More sequences of m wait than run.": MODEL},
    ),
    "a queue of which half runs": Trial(
        "CallgateQueue",
        16,
        [series(SEQUENCES, "4x200", callgate_state=state) for state in ("running", "waiting")],
    ),
    "preemptions": Trial(
        "CallgatePreemptions",
        30,
        [series("callgate_engine_preemptions_total", "0+30x200", callgate_engine="embedded")],
        {"Sequences of m lose their pages and are computed again.": MODEL},
    ),
    "the first cut": Trial(
        "CallgateVerificationCuts",
        5,
        [
            series(
                "callgate_engine_refused_tokens_total",
                "0x5 1x200",
                callgate_engine="a:1",
                callgate_state=state,
            )
            for state in ("unexpected", "expected")
        ],
        {"The engine a:1 of the model m writes what its grammar forbids.": ENGINE},
    ),
    "tokens of an engine without guards": Trial(
        "CallgateVerificationCuts",
        5,
        [
            series(
                "callgate_engine_refused_tokens_total", BUSY, callgate_engine="a:1", callgate_state="expected"
            )
        ],
    ),
    "an old canary": Trial(
        "CallgateCanaryOld",
        40,
        [
            *(
                series("callgate_engine_canary_age_seconds", "0+30x200", callgate_engine=name)
                for name in ("a", "b")
            ),
            series(READY, "1x200", callgate_engine="a"),
            series(READY, IDLE, callgate_engine="b"),
        ],
        {"It is long since a was shown to mask.": {"callgate_engine": "a"}},
    ),
    "a compile queue": Trial(
        "CallgateCompileQueue",
        11,
        [series("callgate_grammar_queue", "51x200", **POD), series("callgate_grammar_queue", IDLE)],
        {"51 schemas wait to be compiled in the gateway gateway-1.": POD},
    ),
    "small budgets": Trial(
        "CallgateSmallBudgets",
        70,
        [
            series("callgate_outputs_total", values, callgate_closed_by=closer, **MODEL)
            for closer, values in {"none": BUSY, "budget": "0+1x200", "verifier": "0x200"}.items()
        ],
        {"25% of the outputs of m are closed by their budget.": MODEL},
    ),
    "outputs that the verifier closed": Trial(
        "CallgateSmallBudgets",
        70,
        [
            series("callgate_outputs_total", values, callgate_closed_by=closer, **MODEL)
            for closer, values in {"none": BUSY, "budget": "0x200", "verifier": BUSY}.items()
        ],
    ),
}


def expected(trial):
    """The alerts that fire, as promtool compares them: with all their labels and annotations."""
    [rule] = [rule for rule in alerts_of(trial.values)["rules"] if rule["alert"] == trial.alert]
    return [
        {"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"] | {"summary": summary}}
        for summary, labels in trial.fired.items()
    ]


def test_each_alert_fires_when_it_should(tmp_path):
    """One run for all trials with the same values; promtool names the trials that differ."""
    for values in {trial.values for trial in TRIALS.values()}:
        (tmp_path / "rules.yml").write_text(json.dumps({"groups": [alerts_of(values)]}), "utf-8")
        trials = {name: trial for name, trial in TRIALS.items() if trial.values == values}
        tests = [
            {
                "name": name,
                "interval": "30s",
                "input_series": trial.given,
                "alert_rule_test": [
                    {
                        "eval_time": f"{trial.minutes}m",
                        "alertname": trial.alert,
                        "exp_alerts": expected(trial),
                    }
                ],
            }
            for name, trial in trials.items()
        ]
        (tmp_path / "tests.yml").write_text(
            yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}), "utf-8"
        )
        done = subprocess.run(
            [installed("promtool"), "test", "rules", "tests.yml"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_trial_in_which_it_fires():
    fired = {trial.alert for trial in TRIALS.values() if trial.fired}
    assert fired == {rule["alert"] for rule in alerts_of(MONITORED)["rules"]}


def test_alerts_of_two_releases_are_not_the_same():
    """The Alertmanager takes alerts with the same labels for one: the end of one would end the other."""
    for rule in alerts_of(MONITORED)["rules"]:
        assert rule["labels"].items() >= RELEASE.items()
    renamed = alerts_of(MONITORED.replace("metrics:", "metrics:\n  job: callgate-of-mine"))
    assert {rule["labels"]["job"] for rule in renamed["rules"]} == {"callgate-of-mine"}
