# Completes `warren ctl`, `rabbitmqctl` and RabbitMQ's other names of it: commands, options, names of queues, vhosts, users.
#   source <(warren ctl completion bash)
_warren() {
  local program=${COMP_WORDS[0]} line words from=1
  # Words as the shell will see them: readline also breaks them at : and =.
  line=${COMP_LINE:0:COMP_POINT}
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  local word=${words[${#words[@]}-1]}
  if [ "${program##*/}" = warren ]; then
    if [ "${#words[@]}" = 2 ]; then
      mapfile -t COMPREPLY < <(compgen -W "server ctl plugins perf bench config diag null-broker help" -- "$word")
      return
    fi
    case ${words[1]} in
      ctl) from=2 ;;
      *) return ;;
    esac
    mapfile -t COMPREPLY < <("$program" ctl complete_words "${words[@]:$from}" 2>/dev/null)
  else
    mapfile -t COMPREPLY < <("$program" complete_words "${words[@]:$from}" 2>/dev/null)
  fi
  # What stands before the last : or = is on the line already.
  local kept=${word%"${word##*[:=]}"} at
  [ -z "$kept" ] || for at in "${!COMPREPLY[@]}"; do COMPREPLY[at]=${COMPREPLY[at]#"$kept"}; done
}
complete -o default -F _warren warren rabbitmqctl rabbitmq-diagnostics rabbitmq-queues rabbitmq-upgrade rabbitmq-plugins rabbitmq-streams
