import { walk } from './posix.ts'
import { type CommandEntry, type OptionEntry, quoted } from './tree.ts'

/** Returns the zsh completion script, to be sourced or saved as `_hearth` in a folder of `fpath`. */
export function zshCompletion(commands: readonly CommandEntry[]): string {
  const globals = commands.find(({ path }) => path === '')?.options ?? []
  const values = commands.flatMap(({ path, options }) =>
    options
      .filter(({ choices }) => choices.length > 0)
      .map(({ flags, choices }) => {
        const pattern = flags.map((flag) => quoted(`${path} ${flag}`)).join('|')
        return `      ${pattern}) offer=(${choices.map(quoted).join(' ')}) ;;`
      }),
  )
  const offers = commands.map(({ path, commands: below, choices, options }) => {
    const words = [...below.map(({ name, about }) => described(name, about)), ...choices.map(quoted)]
    const flags = [...options, ...(path === '' ? [] : globals)].flatMap(describedFlags)
    return `      ${quoted(path)}) offer=(${words.join(' ')}) flags=(${flags.join(' ')}) ;;`
  })
  return `#compdef hearth
# Completion of hearth for zsh: source <(hearth completion zsh)
_hearth() {
  local path_ skip word
  local -a offer flags
  local path=''
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$path_ $word" in
${walk(commands).replaceAll('path=', 'path_=')}
    esac
  done
  if [[ -n $skip ]]; then
    case "$path_ \${words[CURRENT-1]}" in
${values.join('\n')}
    esac
    if (( \${#offer} )); then compadd -a offer; else _files; fi
    return
  fi
  case "$path_" in
${offers.join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o option flags
  elif (( \${#offer} )); then
    _describe command offer
  else
    _files
  fi
}
if [[ \${funcstack[1]} == _hearth ]]; then _hearth "$@"; else compdef _hearth hearth; fi
`
}

/** A colon separates a word from its description. */
const described = (word: string, about: string): string =>
  quoted(`${word.replaceAll(':', String.raw`\:`)}:${about}`)

const describedFlags = ({ flags, about }: OptionEntry): string[] =>
  flags.map((flag) => described(flag, about))
