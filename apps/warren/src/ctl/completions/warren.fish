# Completes `warren ctl`, `rabbitmqctl` and RabbitMQ's other names of it: commands, options, names of queues, vhosts, users.
#   warren ctl completion fish | source
function __warren_words
    set -l words (commandline -opc) (commandline -ct)
    set -l program $words[1]
    if test (basename $program) = warren
        $program ctl complete_words $words[3..-1] 2>/dev/null
    else
        $program complete_words $words[2..-1] 2>/dev/null
    end
end
complete -c warren -n __fish_use_subcommand -f -a "server ctl plugins perf bench config diag null-broker help"
complete -c warren -n "__fish_seen_subcommand_from ctl" -a "(__warren_words)"
for name in rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams
    complete -c $name -a "(__warren_words)"
end
