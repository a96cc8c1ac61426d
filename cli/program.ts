import { Command } from 'commander'
import { VERSION } from '../platform/version.ts'
import { baseUrl, filled, headerText } from './arguments.ts'
import { WRONG_USE } from './cli-error.ts'
import { NOUNS } from './nouns.ts'

/** Builds the commands; what stands below a noun is loaded when it is needed. */
export function createProgram(): Command {
  const program = new Command('hearth')
    .description('Uses and administers a Hearth platform (docs/cli.md).')
    .version(VERSION)
    .option(
      '--base-url <url>',
      'the platform (HEARTH_BASE_URL, else the profile, else the one `npm start` runs here)',
      baseUrl,
    )
    .option(
      '--api-key <key>',
      'HEARTH_API_KEY, else that of the profile or of the platform running here',
      headerText,
    )
    .option('--operations-key <key>', 'for operators: HEARTH_OPERATIONS_KEY, else as the API key', headerText)
    .option('--json', 'print the answer as JSON')
    .configureOutput({ outputError: (text, write) => write(inOneLine(text)) })
    // Commands that are added from here on inherit it.
    .exitOverride((err) => {
      process.exit(err.exitCode === 0 ? 0 : WRONG_USE)
    })
    .configureHelp({ sortSubcommands: true, showGlobalOptions: true })
    .addHelpText(
      'after',
      `
Exit codes: 0 done; 1 it failed, or the platform refused it; 2 wrong use: the command line, the environment, a key or the
request; 130 ended by Ctrl-C, after which begun work goes on.

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

/** Builds all commands at once: for what looks at all of them. */
export const wholeProgram = (): Promise<Command> => whole(createProgram())

async function whole(program: Command): Promise<Command> {
  for (const noun of program.commands) await load(noun, program)
  return program
}

/** Adds what stands below a noun, once. */
async function load(noun: Command, program: Command): Promise<void> {
  if (noun.commands.length > 0 || noun.registeredArguments.length > 0) return
  const { load: register } = NOUNS.find(({ name }) => name === noun.name()) ?? {}
  ;(await register?.())?.(noun, () => whole(program))
  addProfile(noun)
}

/** The option belongs to each verb rather than to the program, which would take it only in front of the noun. */
function addProfile(command: Command): void {
  for (const below of command.commands) addProfile(below)
  if (command.commands.length > 0 || command.options.some(({ long }) => long === '--profile')) return
  command.option(
    '--profile <name>',
    'a platform of `hearth login` (HEARTH_PROFILE, else the last login)',
    filled,
  )
}

/** Shortens the error about a command line to one line with a hint at the help. */
function inOneLine(text: string): string {
  const said = text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ')
  return `hearth: ${said} (--help shows what is possible)\n`
}
