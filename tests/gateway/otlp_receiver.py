"""A receiver of OTLP, over HTTP or gRPC: it keeps what comes, as OpenTelemetry's own messages."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_messages
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_service

PATHS = {
    "/v1/traces": (trace_messages.ExportTraceServiceRequest, trace_messages.ExportTraceServiceResponse),
    "/v1/metrics": (
        metrics_messages.ExportMetricsServiceRequest,
        metrics_messages.ExportMetricsServiceResponse,
    ),
}


class Received:
    """Spans, and the last value of each metric."""

    def __init__(self):
        self.resources = []
        self.spans = []
        self.metrics = {}

    def add(self, message):
        if isinstance(message, trace_messages.ExportTraceServiceRequest):
            for group in message.resource_spans:
                self.resources.append(values(group.resource.attributes))
                self.spans += [span for scope in group.scope_spans for span in scope.spans]
        else:
            for group in message.resource_metrics:
                self.metrics |= {m.name: m for scope in group.scope_metrics for m in scope.metrics}

    def trees(self):
        """The spans below each other, as names with their children in the order of their beginning."""
        ids = {span.span_id for span in self.spans}
        in_order = sorted(self.spans, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))

        def below(span):
            return span.name, [below(child) for child in in_order if child.parent_span_id == span.span_id]

        return [below(span) for span in in_order if span.parent_span_id not in ids]

    def named(self, name):
        return [span for span in self.spans if span.name == name]


def values(attributes):
    """Attributes as Python's values."""
    return {each.key: value_of(each.value) for each in attributes}


def value_of(value):
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [value_of(one) for one in found.values] if kind == "array_value" else found


@contextmanager
def receiving_http():
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked, answer = PATHS[self.path]
            received.add(asked.FromString(self.rfile.read(int(self.headers["content-length"]))))
            content = answer().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/traces", received
        finally:
            server.shutdown()
            thread.join()


class Traces(trace_service.TraceServiceServicer):
    def __init__(self, received):
        self.received = received

    def Export(self, request, context):  # noqa: N802 - gRPC's name
        self.received.add(request)
        return trace_messages.ExportTraceServiceResponse()


class Measures(metrics_service.MetricsServiceServicer):
    def __init__(self, received):
        self.received = received

    def Export(self, request, context):  # noqa: N802 - gRPC's name
        self.received.add(request)
        return metrics_messages.ExportMetricsServiceResponse()


@contextmanager
def receiving_grpc():
    received = Received()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service.add_TraceServiceServicer_to_server(Traces(received), server)
    metrics_service.add_MetricsServiceServicer_to_server(Measures(received), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", received
    finally:
        server.stop(None).wait()


RECEIVING = {"http": receiving_http, "grpc": receiving_grpc}


def counts(metric):
    """The sum of a counter, or the number of values of a histogram, by attributes."""
    data = getattr(metric, metric.WhichOneof("data"))
    found = Counter()
    for point in data.data_points:
        labels = frozenset(values(point.attributes).items())
        found[labels] += point.count if hasattr(point, "count") else point.as_int or point.as_double
    return found
