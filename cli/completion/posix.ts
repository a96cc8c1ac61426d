import { type CommandEntry, type OptionEntry, quoted } from './tree.ts'

/** Returns the body of a `case "$path $word"` that resolves a command line to a command, in bash and zsh. */
export function walk(commands: readonly CommandEntry[]): string {
  const globals = commands.find(({ path }) => path === '')?.options ?? []
  return [
    ...globals.filter(({ takesValue }) => takesValue).map((option) => `      ${anywhere(option)}) skip=1 ;;`),
    ...commands.flatMap(({ path, options }) =>
      options
        .filter(({ takesValue }) => takesValue && path !== '')
        .map(({ flags }) => `      ${flags.map((flag) => quoted(`${path} ${flag}`)).join('|')}) skip=1 ;;`),
    ),
    ...commands.flatMap(({ path, commands: below }) =>
      below.map(
        ({ name }) => `      ${quoted(`${path} ${name}`)}) path=${quoted(`${path} ${name}`.trim())} ;;`,
      ),
    ),
  ].join('\n')
}

/** Returns the pattern of a global option after any path. */
export const anywhere = ({ flags }: OptionEntry): string =>
  flags.map((flag) => `*${quoted(` ${flag}`)}`).join('|')
