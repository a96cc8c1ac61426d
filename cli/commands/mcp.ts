import { type Command, Option } from 'commander'
import { readConfig } from '../../platform/config.ts'
import { headerText } from '../arguments.ts'
import { usageError } from '../cli-error.ts'
import { findPlatform, type GlobalOptions } from '../context.ts'
import { bridge } from '../mcp-bridge.ts'
import { CLIENT_NAMES, configurationFor } from '../mcp-config.ts'

interface McpOptions extends GlobalOptions {
  apiKey?: string
  names: 'safe' | 'slugs'
}

const PLACEHOLDER = 'hk_...'

/** The MCP server for clients that start a program instead of opening an address. */
export function mcpCommands(program: Command): void {
  const mcp = program
    .command('mcp')
    .description('serve the Model Context Protocol on standard input and output, for desktop clients')
    .option('--api-key <key>', 'HEARTH_API_KEY, else that of the platform running here', headerText)
    .addOption(
      new Option('--names <form>', 'the names of tools: with dots replaced, or the slugs')
        .choices(['safe', 'slugs'])
        .default('safe'),
    )
    .action(async (_options: object, command: Command) => {
      const { baseUrl, key, names } = reached(command)
      if (!key) {
        throw usageError(
          `An API key is needed for ${baseUrl}: set HEARTH_API_KEY or pass --api-key. \`npx hearth keys create\` makes one.`,
        )
      }
      await bridge(
        { url: `${baseUrl}/mcp${names === 'safe' ? '?names=safe' : ''}`, key },
        { input: process.stdin, write: (line) => process.stdout.write(`${line}\n`) },
      )
    })
  mcp
    .command('config')
    .description('print what to paste into the configuration of a client')
    .addOption(new Option('--client <name>', 'one client only').choices(CLIENT_NAMES))
    .action((options: { client?: string }, command: Command) => {
      const { baseUrl, key = PLACEHOLDER, names } = reached(command)
      const url = `${baseUrl}/mcp${names === 'safe' ? '?names=safe' : ''}`
      console.log(configurationFor({ url, baseUrl, key }, options.client))
      if (key === PLACEHOLDER)
        console.error(
          `hearth: put an API key in place of ${PLACEHOLDER}; \`npx hearth keys create\` makes one.`,
        )
      else
        console.error(
          'hearth: this holds an API key. For an agent make one of its own, with `npx hearth keys create --role operator --tools ...`, and pass it with --api-key.',
        )
    })
}

function reached(command: Command): { baseUrl: string; key: string | undefined; names: 'safe' | 'slugs' } {
  const options = command.optsWithGlobals<McpOptions>()
  const config = readConfig()
  const { baseUrl, ready } = findPlatform(options, config)
  const key = options.apiKey ?? (config.HEARTH_API_KEY || ready?.api_key)
  return { baseUrl: baseUrl.replace(/\/$/, ''), key, names: options.names }
}
