import { type CommandEntry, type OptionEntry } from './tree.ts'

const quoted = (text: string): string =>
  `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`

/** Returns the fish completion script, to be sourced or saved as completions/hearth.fish. */
export function fishCompletion(commands: readonly CommandEntry[]): string {
  const skipping = commands.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags }) =>
        flags.map((flag) => (path === '' ? quoted(`* ${flag}`) : quoted(`${path} ${flag}`))).join(' '),
      ),
  )
  const steps = commands.flatMap(({ path, commands: below }) =>
    below.map(
      ({ name }) =>
        `            case ${quoted(`${path} ${name}`)}\n                set path ${quoted(`${path} ${name}`.trim())}`,
    ),
  )
  const lines = commands.flatMap(({ path, commands: below, options, choices }) => {
    const at = `-n ${quoted(`__hearth_at "${path}"`)}`
    return [
      ...below.map(({ name, about }) => `complete -c hearth ${at} -f -a ${quoted(name)} -d ${quoted(about)}`),
      ...(choices.length > 0 ? [`complete -c hearth ${at} -f -a ${quoted(choices.join(' '))}`] : []),
      ...options.map((option) => `complete -c hearth ${path === '' ? '' : `${at} `}${flagsOf(option)}`),
    ]
  })
  return `# Completion of hearth for fish: hearth completion fish | source
function __hearth_at
    set -l path ''
    set -l skip ''
    for word in (commandline -opc)[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch "$path $word"
            case ${skipping.join(' ')}
                set skip 1
${steps.join('\n')}
        end
    end
    test "$path" = "$argv[1]"
end
${lines.join('\n')}
`
}

function flagsOf({ flags, about, takesValue, choices }: OptionEntry): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
  const value = choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : takesValue ? ' -r' : ''
  return `${names.join(' ')}${value} -d ${quoted(about)}`
}
