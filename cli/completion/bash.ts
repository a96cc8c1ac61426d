import { anywhere, walk } from './posix.ts'
import { type CommandEntry, quoted } from './tree.ts'

/** Returns the bash completion script. It completes file names where it has no other suggestion. */
export function bashCompletion(commands: readonly CommandEntry[]): string {
  const globals = commands.find(({ path }) => path === '')?.options ?? []
  const values = [
    ...globals.filter(({ takesValue }) => takesValue).map((option) => `    ${anywhere(option)}) return ;;`),
    ...commands.flatMap(({ path, options }) =>
      options
        .filter(({ takesValue }) => takesValue && path !== '')
        .map(({ flags, choices }) => {
          const pattern = flags.map((flag) => quoted(`${path} ${flag}`)).join('|')
          return choices.length > 0
            ? `    ${pattern}) offer=${quoted(choices.join(' '))} ;;`
            : `    ${pattern}) return ;;`
        }),
    ),
  ]
  const offers = commands.map(({ path, commands: below, choices, options }) => {
    const words = [...below.map(({ name }) => name), ...choices]
    const flags = [...new Set([...options, ...globals].flatMap((option) => option.flags)), '--help']
    return `      ${quoted(path)}) words=${quoted(words.join(' '))} flags=${quoted(flags.join(' '))} ;;`
  })
  return `# Completion of hearth for bash: source <(hearth completion bash)
_hearth() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]}
  local path='' skip='' word words='' flags='' offer=''
  COMPREPLY=()
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ -n $skip ]]; then skip=''; continue; fi
    case "$path $word" in
${walk(commands)}
    esac
  done
  if [[ -n $skip ]]; then
    case "$path $prev" in
${values.join('\n')}
    esac
  else
    case "$path" in
${offers.join('\n')}
    esac
    if [[ $cur == -* ]]; then offer=$flags; else offer=$words; fi
  fi
  while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$offer" -- "$cur")
}
complete -o default -F _hearth hearth
`
}
