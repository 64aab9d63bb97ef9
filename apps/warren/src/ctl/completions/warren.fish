# Completes the commands of `warren ctl`, `rabbitmqctl` and `rabbitmq-diagnostics`.
#   warren ctl completion fish | source
complete -c warren -n __fish_use_subcommand -a "server ctl perf config help"
complete -c warren -n "__fish_seen_subcommand_from ctl" -a "(warren ctl autocomplete 2>/dev/null)"
complete -c rabbitmqctl -a "(rabbitmqctl autocomplete 2>/dev/null)"
complete -c rabbitmq-diagnostics -a "(rabbitmq-diagnostics autocomplete 2>/dev/null)"
