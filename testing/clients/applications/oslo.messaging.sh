# oslo.messaging's functional tests: RPC and notifications over its RabbitMQ driver. Skipped are two of fail-over between cluster nodes.
cd "$APPS"/oslo_messaging-*/
export PATH=$(dirname "$PYTHON"):$PATH OS_TEST_TIMEOUT=90
export RPC_TRANSPORT_URL="rabbit://$BROKER_USER:$BROKER_PASSWORD@$HOST:$PORT/" NOTIFY_TRANSPORT_URL="rabbit://$BROKER_USER:$BROKER_PASSWORD@$HOST:$PORT/"
rm -rf .stestr
stestr --test-path oslo_messaging/tests/functional --top-dir . run --concurrency 4 --exclude-regex MetricsTestCase
