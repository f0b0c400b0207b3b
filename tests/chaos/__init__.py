"""Faults under load: `make chaos`, or `PYTHONPATH=.:tests:tests/gateway:tests/engines python -m chaos`.

Real gateways, engines and a Redis run on loopback, in processes of their own. Clients of OpenAI's library call
them without a pause while one thing after the other breaks:

- `cluster`: the processes, and how they are broken; `engine_process` is what runs as an engine
- `load`: the clients, which judge every answer, and the writer, which remembers what was acknowledged
- `shared_faults`: faults of what the load uses; `own_faults`: faults of a gateway that has no other clients
- `histories`: whether a history of compare-and-set operations is linearizable
- `report`: the figures of docs/reliability.md

What must hold at the end of each fault: every request ended with a valid answer or a clear error within its deadline,
every registration that was acknowledged is there, and all is served again.
"""
