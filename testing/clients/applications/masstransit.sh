# MassTransit needs .NET, which is not asked for here. This declares and uses the exchanges and queues that its transport declares.
cd "$HERE"
"$PYTHON" -m pytest -q -p no:cacheprovider --timeout=60 --tb=short masstransit_topology.py
