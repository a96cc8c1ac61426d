import type { Argument, Command, Option } from 'commander'

/** An option of a command. */
export interface OptionEntry {
  /** The long flag, such as `--format`, and the short flag if the option has one. */
  flags: readonly string[]
  about: string
  takesValue: boolean
  choices: readonly string[]
}

/** A command as a shell completes it. */
export interface CommandEntry {
  /** The command's words, such as `datasets upload`; empty for `hearth` itself. */
  path: string
  commands: readonly { name: string; about: string }[]
  options: readonly OptionEntry[]
  /** The values of its arguments, if they're known. */
  choices: readonly string[]
}

/** Lists a command and all of its subcommands. */
export function commandsOf(command: Command, path: readonly string[] = []): CommandEntry[] {
  const words: CommandEntry = {
    path: path.join(' '),
    commands: command.commands.map((one) => ({ name: one.name(), about: one.description() })),
    options: command.options.map(toOptionEntry),
    choices: command.registeredArguments.flatMap(({ argChoices }: Argument) => argChoices ?? []),
  }
  return [words, ...command.commands.flatMap((one) => commandsOf(one, [...path, one.name()]))]
}

const toOptionEntry = ({
  long,
  short,
  description,
  required,
  optional,
  argChoices,
}: Option): OptionEntry => ({
  flags: [long, short].filter((flag) => flag !== undefined && flag !== null),
  about: description,
  takesValue: required || optional,
  choices: argChoices ?? [],
})

/** Quotes a string for bash and zsh. */
export const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
