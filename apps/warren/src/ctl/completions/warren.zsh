#compdef warren rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams
# Completes `warren ctl`, `rabbitmqctl` and RabbitMQ's other names of it: commands, options, names of queues, vhosts, users.
#   source <(warren ctl completion zsh)
_warren() {
  local -a names
  if [[ ${words[1]:t} == warren && $CURRENT == 2 ]]; then
    names=(server ctl plugins perf bench config diag null-broker help)
  elif [[ ${words[1]:t} == warren ]]; then
    [[ ${words[2]} == ctl ]] || { _files; return; }
    names=(${(f)"$(${words[1]} ctl complete_words "${(@)words[3,CURRENT]}" 2>/dev/null)"})
  else
    names=(${(f)"$(${words[1]} complete_words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  fi
  compadd -a names || _files
}
# Either sourced, or a file `_warren` that the first Tab loads.
if [[ ${funcstack[1]} == _warren ]]; then
  _warren "$@"
else
  compdef _warren warren rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams
fi
