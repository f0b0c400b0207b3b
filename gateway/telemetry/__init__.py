"""What operators see: traces, metrics and the log of requests.

| file | what |
|---|---|
| `metrics.py` | the table of all metrics, and how they are recorded |
| `engine_measures.py` | metrics that are asked for when somebody reads them: queues, pages, engines |
| `chat_spans.py` | of one turn: the span `chat MODEL`, and what lies below it |
| `span_attributes.py` | the attributes of these spans, in each version of the conventions |
| `ended_turn.py` | of one turn: its metrics, and its part of the log |
| `served_requests.py` | of one HTTP request: the server span, its duration, its line in the log |
| `log_lines.py` | the two formats of the log |
| `redaction.py` | the operator's function that captured content passes |
| `exporters.py` | the only place that sets up OpenTelemetry's SDK |
| `recorders.py` | wires these for an application |

The layers below know none of this. The grammar cache speaks to a `CacheObserver`, a generation to an
`Observer`, and a runtime writes `GenerationStats`, `RequestTimes` and `Health`: plain values.
"""
