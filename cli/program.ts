import { Command } from 'commander'
import { VERSION } from '../platform/version.ts'
import { baseUrl, filled, headerText } from './arguments.ts'
import { WRONG_USE } from './cli-error.ts'
import { NOUNS } from './command-registry.ts'

/** Builds the program. Subcommands are loaded when they're needed. */
export function createProgram(): Command {
  const program = new Command('hearth')
    .description('Use and administer a Hearth platform (docs/cli.md).')
    .version(VERSION)
    .option(
      '--base-url <url>',
      'platform URL (default: HEARTH_BASE_URL, else the profile, else the local platform)',
      baseUrl,
    )
    .option(
      '--api-key <key>',
      'API key (default: HEARTH_API_KEY, else the key of the profile or the local platform)',
      headerText,
    )
    .option(
      '--operations-key <key>',
      'operations key (default: HEARTH_OPERATIONS_KEY, else as for the API key)',
      headerText,
    )
    .option('--json', 'print the response as JSON')
    .configureOutput({ outputError: (text, write) => write(inOneLine(text)) })
    // Commands added after this line inherit it.
    .exitOverride((err) => {
      process.exit(err.exitCode === 0 ? 0 : WRONG_USE)
    })
    .configureHelp({ sortSubcommands: true, showGlobalOptions: true })
    .addHelpText(
      'after',
      `
Exit codes: 0 success; 1 failure, or the platform rejected the request; 2 usage error in the command line, the
environment, a key or the request; 130 stopped by Ctrl-C (work that has started continues).

Examples:
  $ npx hearth login
  $ npx hearth datasets upload homes.csv
  $ npx hearth train tabular-regression --dataset homes -p target_column=price --watch
  $ npx hearth chat tiny
  $ npx hearth killswitch activate --reason "bad deploy"`,
    )
    .hook('preSubcommand', (_program, noun) => load(noun, program))
  for (const { name, about, group } of NOUNS) program.command(name).description(about).helpGroup(group)
  return program
}

/** Builds the program with all commands loaded, for completion scripts and tests. */
export const wholeProgram = (): Promise<Command> => whole(createProgram())

async function whole(program: Command): Promise<Command> {
  for (const noun of program.commands) await load(noun, program)
  return program
}

/** Loads the subcommands of a noun, once. */
async function load(noun: Command, program: Command): Promise<void> {
  if (noun.commands.length > 0 || noun.registeredArguments.length > 0) return
  const { load: register } = NOUNS.find(({ name }) => name === noun.name()) ?? {}
  ;(await register?.())?.(noun, () => whole(program))
  addProfile(noun)
}

/** Adds `--profile` to each verb, because commander would accept a program option only in front of the noun. */
function addProfile(command: Command): void {
  for (const below of command.commands) addProfile(below)
  if (command.commands.length > 0 || command.options.some(({ long }) => long === '--profile')) return
  command.option(
    '--profile <name>',
    'profile from `hearth login` (default: HEARTH_PROFILE, else the last login)',
    filled,
  )
}

/** Shortens a command-line error to one line with a hint to `--help`. */
function inOneLine(text: string): string {
  const errorText = text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ')
  return `hearth: ${errorText} (see --help)\n`
}
