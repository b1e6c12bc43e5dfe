import type { Action } from '../../kit/command.ts'

/** `panel completion <shell>`. */
export const completion: Action = async (run) => {
  const scripts: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH }
  await run.out.text(scripts[run.args.required('shell')] ?? '')
}

const BASH = `# bash completion of panel
_panel() {
  local cur words IFS=$'\\n'
  if declare -F _get_comp_words_by_ref >/dev/null; then
    local cword
    _get_comp_words_by_ref -n =: cur words cword
  else
    words=("\${COMP_WORDS[@]:0:COMP_CWORD+1}")
    cur="\${COMP_WORDS[COMP_CWORD]}"
    local cword=$COMP_CWORD
  fi
  COMPREPLY=($(panel __complete -- "\${words[@]:1:cword}" 2>/dev/null | cut -f1 | while read -r word; do
    case $word in "$cur"*) printf '%q\\n' "$word" ;; esac
  done))
}
complete -o nosort -o default -F _panel panel
`

const ZSH = `#compdef panel
# zsh completion of panel
_panel() {
  local -a found
  local line
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <(panel __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe 'panel' found; else _files; fi
}
if [ "\${funcstack[1]}" = _panel ]; then _panel "$@"; else compdef _panel panel; fi
`

const FISH = `# fish completion of panel
function __panel_complete
  set -l words (commandline -opc)
  set -e words[1]
  set -l found (panel __complete -- $words (commandline -ct) 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c panel -f -k -a '(__panel_complete)'
`
