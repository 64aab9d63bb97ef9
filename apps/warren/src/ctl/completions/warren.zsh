#compdef warren rabbitmqctl rabbitmq-diagnostics
# Completes the commands of `warren ctl`, `rabbitmqctl` and `rabbitmq-diagnostics`.
#   source <(warren ctl completion zsh)
_warren() {
  local -a names
  if [[ ${words[1]:t} == warren && $CURRENT == 2 ]]; then
    names=(server ctl perf config help)
  elif [[ ${words[1]:t} == warren ]]; then
    [[ ${words[2]} == ctl ]] || return
    names=(${(f)"$(${words[1]} ctl autocomplete 2>/dev/null)"})
  else
    names=(${(f)"$(${words[1]} autocomplete 2>/dev/null)"})
  fi
  compadd -a names || _files
}
compdef _warren warren rabbitmqctl rabbitmq-diagnostics
