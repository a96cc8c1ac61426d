import type { Argument, Command, Option } from 'commander'

/** An option of a command. */
export interface OptionWords {
  /** `--format`, and `-p` where there is one. */
  flags: readonly string[]
  about: string
  takesValue: boolean
  choices: readonly string[]
}

/** A command as a shell completes it. */
export interface CommandWords {
  /** The words that lead to it, `datasets upload`; empty for `hearth` itself. */
  path: string
  commands: readonly { name: string; about: string }[]
  options: readonly OptionWords[]
  /** The values that its arguments may have, where these are known. */
  choices: readonly string[]
}

/** Lists a command with all that stand below it. */
export function commandsOf(command: Command, path: readonly string[] = []): CommandWords[] {
  const words: CommandWords = {
    path: path.join(' '),
    commands: command.commands.map((one) => ({ name: one.name(), about: one.description() })),
    options: command.options.map(optionWords),
    choices: command.registeredArguments.flatMap(({ argChoices }: Argument) => argChoices ?? []),
  }
  return [words, ...command.commands.flatMap((one) => commandsOf(one, [...path, one.name()]))]
}

const optionWords = ({ long, short, description, required, optional, argChoices }: Option): OptionWords => ({
  flags: [long, short].filter((flag) => flag !== undefined && flag !== null),
  about: description,
  takesValue: required || optional,
  choices: argChoices ?? [],
})

/** Quotes a text for bash and zsh. */
export const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
