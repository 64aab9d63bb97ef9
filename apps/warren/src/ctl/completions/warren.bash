# Completes the commands of `warren ctl`, `rabbitmqctl` and `rabbitmq-diagnostics`.
#   source <(warren ctl completion bash)
_warren() {
  local word=${COMP_WORDS[COMP_CWORD]}
  local program=${COMP_WORDS[0]}
  if [ "${program##*/}" = warren ]; then
    if [ "$COMP_CWORD" = 1 ]; then
      mapfile -t COMPREPLY < <(compgen -W "server ctl perf config help" -- "$word")
      return
    fi
    [ "${COMP_WORDS[1]}" = ctl ] || return
    mapfile -t COMPREPLY < <("$program" ctl autocomplete -- "$word" 2>/dev/null)
  else
    mapfile -t COMPREPLY < <("$program" autocomplete -- "$word" 2>/dev/null)
  fi
}
complete -o default -F _warren warren rabbitmqctl rabbitmq-diagnostics
