# Celery's integration tests, with results over the broker. Ignored are tests of other result backends and of memory, and a slow one of chains;
# deselected those that need Redis, Django, a shell's environment or an idle machine. Most of the skipped ones need Redis, too.
# `test_replaced_task_nesting_level_0` races with its worker: it clears a flag after it has published. It fails now and then everywhere,
# and more often where the task arrives sooner. Nothing else may use Celery on the broker meanwhile: the tests count the workers.
cd "$APPS"/celery-*/
export TEST_BROKER="pyamqp://$BROKER_USER:$BROKER_PASSWORD@$HOST:$PORT//" TEST_BACKEND=rpc://
arguments=()
for file in backend database_backend redis_backend mem_leak_in_exception_handling group_chains; do
  arguments+=(--ignore "t/integration/test_$file.py")
done
for test in \
  canvas.py::test_chain::test_{task_replaced_with_chain,chain_child_replaced_with_chain_last} \
  canvas.py::test_group::test_group_child_replaced_with_chain_{first,middle,last} \
  serialization.py::test_config_serialization::test_accept \
  tasks.py::test_task_replacement::test_replaced_task_nesting_level_0 \
  tasks.py::test_tasks::test_retry tasks.py::test_trace_log_arguments::test_task_{success,failed} \
  worker.py::test_{run_worker,django_fixup_direct_worker,django_fixup_installs_django_task_for_celery_subclass}; do
  arguments+=(--deselect "t/integration/test_$test")
done
"$PYTHON" -m pytest -q -p no:cacheprovider --timeout=60 --tb=short "${arguments[@]}" t/integration
