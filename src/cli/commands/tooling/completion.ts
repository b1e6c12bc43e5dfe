import type { Action } from '../../kit/command.ts'

/** `panel completion <shell>`. */
export const completion: Action = async (run) => {
  const scripts: Readonly<Record<string, string>> = { bash: BASH, zsh: ZSH, fish: FISH }
  await run.out.text(scripts[run.args.required('shell')] ?? '')
}

/**
 * Names hold blanks, quotes and colons. Bash hands over words as they are typed, cut at colons: the line is read here as the shell would, without
 * running anything of it. Of a name that is found, only what stands behind the last cut is put in, quoted as the person has begun.
 */
const BASH = `# bash completion of panel
_panel_read() {
  local text=$1 char next begun= i
  words=() word= raw= quote=
  for ((i = 0; i < \${#text}; i++)); do
    char=\${text:i:1}
    if [[ -z $quote && $char == [[:space:]] ]]; then
      if [[ -n $begun ]]; then words+=("$word"); fi
      word= raw= begun=
      continue
    fi
    begun=1 raw+=$char
    if [[ $quote == "'" && $char != "'" ]]; then word+=$char
    elif [[ $char == "\\\\" ]]; then
      i=$((i + 1)) next=\${text:i:1} raw+=$next
      if [[ $quote == '"' && $next != ['"$\`\\'] ]]; then word+=$char; fi
      word+=$next
    elif [[ $char == "$quote" ]]; then quote=
    elif [[ -z $quote && $char == [\\"\\'] ]]; then quote=$char
    else word+=$char
    fi
  done
}
_panel() {
  local words word raw quote typed all found
  _panel_read "\${COMP_LINE:0:COMP_POINT}"
  all=("\${words[@]:1}") typed=$word
  _panel_read "\${raw%"$2"}"
  while IFS= read -r found; do
    if [[ $found != "$typed"* ]]; then continue; fi
    found=\${found#"$word"}
    case $quote in
      "'") found=\${found//"'"/"'\\\\''"} ;;
      '"') found=$(printf %s "$found" | sed 's/["$\`\\\\]/\\\\&/g') ;;
      *) if [[ -n $found ]]; then printf -v found %q "$found"; fi ;;
    esac
    COMPREPLY+=("$found")
  done < <(panel __complete -- "\${all[@]}" "$typed" 2>/dev/null | cut -f1)
}
complete -o nosort -o default -F _panel panel
`

const ZSH = `#compdef panel
# zsh completion of panel
_panel() {
  local -a found
  local line
  # Quotes that are not closed yet are closed.
  local typed=$compstate[quote]$PREFIX$compstate[quote]
  while IFS= read -r line; do
    found+=("\${\${line%%$'\\t'*}//:/\\\\:}:\${line#*$'\\t'}")
  done < <(panel __complete -- "\${(@Q)words[2,CURRENT-1]}" "\${(Q)typed}" 2>/dev/null)
  if (( \${#found} )); then _describe 'panel' found; else _files; fi
}
if [ "\${funcstack[1]}" = _panel ]; then _panel "$@"; else compdef _panel panel; fi
`

const FISH = `# fish completion of panel
function __panel_complete
  set -l words (commandline -opc)
  set -e words[1]
  set -l typed (commandline -ct)
  # Quotes that are not closed yet are no text.
  set -l word (string unescape -- $typed; or string replace -r '^["\\']' '' -- $typed)
  set -l found (panel __complete -- $words $word 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path $typed
  end
end
complete -c panel -f -k -a '(__panel_complete)'
`
