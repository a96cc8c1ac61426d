import { Command } from 'commander'
import { VERSION } from '../platform/version.ts'
import { baseUrl, headerText } from './arguments.ts'
import { WRONG_USE } from './cli-error.ts'
import { accountCommands, keyCommands } from './commands/accounts.ts'
import { cohortCommands } from './commands/cohorts.ts'
import { mcpCommands } from './commands/mcp.ts'
import { memoryCommands } from './commands/memory.ts'
import { modelCommands } from './commands/models.ts'
import { nodeCommands } from './commands/nodes.ts'
import { auditCommands, endpointCommands, killSwitchCommands } from './commands/operations.ts'
import { toolCommands } from './commands/tools.ts'
import { type Context, type GlobalOptions, openContext } from './context.ts'
import { listenCommand } from './listen.ts'

/** Builds the commands of operators. */
export function createProgram(): Command {
  const program = new Command('hearth')
    .description('Administers a Hearth platform through its admin routes.')
    .version(VERSION)
    .option('--base-url <url>', 'the platform (HEARTH_BASE_URL, else the one `npm start` runs here)', baseUrl)
    .option(
      '--operations-key <key>',
      'HEARTH_OPERATIONS_KEY, else that of the platform running here',
      headerText,
    )
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
Examples:
  $ npx hearth accounts create "Acme"
  $ npx hearth keys create <account_id> --role admin
  $ npx hearth node-token create <account_id>
  $ npx hearth killswitch activate --reason "bad deploy"`,
    )
  const open = (command: Command): Context => openContext(command.optsWithGlobals<GlobalOptions>())
  for (const register of [
    accountCommands,
    keyCommands,
    nodeCommands,
    modelCommands,
    killSwitchCommands,
    endpointCommands,
    memoryCommands,
    toolCommands,
    auditCommands,
  ]) {
    register(program, open)
  }
  listenCommand(program)
  cohortCommands(program)
  mcpCommands(program)
  return program
}

/** Shortens the error about a command line to one line with a hint at the help. */
function inOneLine(text: string): string {
  const said = text
    .trim()
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ')
  return `hearth: ${said} (--help shows what is possible)\n`
}
