"""What operators see: traces, metrics and the log of requests.

| file | what |
|---|---|
| `metrics.py` | the table of all metrics, and how they are recorded |
| `engine_measures.py` | metrics that are measured when somebody reads them: queues, pages, engines |
| `turn_recorder.py` | one turn: the span `chat MODEL` or `text_completion MODEL`, and the spans below it |
| `span_attributes.py` | the attributes of these spans, in each version of the conventions |
| `ended_turn.py` | one turn when it has ended: its metrics, and its part of the log |
| `recent_requests.py` | the last requests to models, in memory |
| `request_span.py` | one HTTP request: the server span and its duration |
| `access_log.py` | one HTTP request: its line in the log |
| `log_lines.py` | the two formats of the log |
| `redaction.py` | the operator's function that captured content passes |
| `exporters.py` | the only place that sets up OpenTelemetry's SDK |
| `recorders.py` | wires these for an application |

The packages below the gateway do not import this. The grammar cache reports to a `CacheObserver`, and a
runtime returns plain values: `GenerationStats`, `RequestTimes` and `Health`. In the gateway, a generation
reports to an `Observer`.
"""
