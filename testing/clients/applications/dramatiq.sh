# Dramatiq's tests of its RabbitMQ broker. Its source distribution lacks their fixtures: dramatiq_fixtures.py has them.
cd "$APPS"/dramatiq-*/
touch tests/__init__.py
cp "$HERE/dramatiq_fixtures.py" tests/common.py
echo 'from .common import rabbitmq_broker, rabbitmq_worker  # noqa: F401' > tests/conftest.py
RABBITMQ_PORT=$PORT RABBITMQ_USERNAME=$BROKER_USER RABBITMQ_PASSWORD=$BROKER_PASSWORD \
  "$PYTHON" -m pytest -q -p no:cacheprovider -o addopts= --timeout=60 --tb=short tests/test_rabbitmq.py
