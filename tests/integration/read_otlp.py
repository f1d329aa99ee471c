"""What a collector would read, by the message classes of PyPI's opentelemetry-proto, as JSON.

read_otlp.py logs|metrics|traces FILE      run by build/clients-venv/bin/python
"""

import json
import sys
from pathlib import Path

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "traces": ExportTraceServiceRequest,
}


request = KINDS[sys.argv[1]]()
request.ParseFromString(Path(sys.argv[2]).read_bytes())
before = len(request.SerializeToString())
request.DiscardUnknownFields()
assert len(request.SerializeToString()) == before, "there are fields that OpenTelemetry has not"
print(json.dumps(MessageToDict(request)))
