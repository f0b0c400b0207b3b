"""The gateway: an HTTP server in front of the runtime.

A command leads to the application, and a request through its packages in this order:

cli             the command `callgate`; `commands` has what it runs, `demo` the demonstration
settings        what can be configured; `setting_sources` says where the values come from
server          `callgate serve`: listens, loads the models, serves
app             the composition root: makes the application and connects its parts
  http            headers, bodies, deadlines, and errors as clients see them
  access          API keys, and what they may do
  routes          what each path does
  wire            from an API's JSON to a turn, and from events to JSON
  generation      from a turn to the generation that answers it
  toolsets        registering, importing and listing toolsets
  sources         reading the tools of sources, in processes with limits
  telemetry       traces, metrics and the log of requests
  api_document    the OpenAPI document of the routes
  console         the web console
"""
