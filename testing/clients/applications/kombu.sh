# kombu's integration tests of its RabbitMQ transport. The one left out depends on timing: it wants four messages of one drain.
cd "$APPS"/kombu-*/
export RABBITMQ_HOST=$HOST RABBITMQ_5672_TCP=$PORT
"$PYTHON" -m pytest -q -p no:cacheprovider --timeout=60 --tb=short t/integration/test_py_amqp.py \
  -k "not (test_PyAMQPPriority and test_publish_requeue_consume)"
