import { type Command, Option } from 'commander'
import { noKeyFor } from '../as-account.ts'
import { cliConfig } from '../cli-config.ts'
import { bridge } from '../mcp-bridge.ts'
import { CLIENT_NAMES, configurationFor } from '../mcp-config.ts'
import { findPlatform, type GlobalOptions } from '../platform.ts'
import { printStatus, printLine } from '../print.ts'

interface McpOptions extends GlobalOptions {
  names: 'safe' | 'slugs'
}

const PLACEHOLDER = 'hk_...'

/** The MCP server for clients that start a program instead of connecting to a URL. */
export function mcpCommands(mcp: Command): void {
  mcp
    .addOption(
      new Option('--names <form>', 'tool names: with dots replaced, or the slugs')
        .choices(['safe', 'slugs'])
        .default('safe'),
    )
    .action(async (_options: object, command: Command) => {
      const { baseUrl, key, names } = reached(command)
      if (!key) throw noKeyFor(baseUrl)
      await bridge(
        { url: `${baseUrl}/mcp${names === 'safe' ? '?names=safe' : ''}`, key },
        { input: process.stdin, write: (line) => process.stdout.write(`${line}\n`) },
      )
    })
  mcp
    .command('config')
    .description('print the configuration for an MCP client')
    .addOption(new Option('--client <name>', 'only this client').choices(CLIENT_NAMES))
    .action((options: { client?: string }, command: Command) => {
      const { baseUrl, key = PLACEHOLDER, names } = reached(command)
      const url = `${baseUrl}/mcp${names === 'safe' ? '?names=safe' : ''}`
      printLine(configurationFor({ url, baseUrl, key }, options.client))
      if (key === PLACEHOLDER)
        printStatus(`hearth: replace ${PLACEHOLDER} with an API key; \`npx hearth keys create\` creates one.`)
      else
        printStatus(
          'hearth: this contains an API key. Create a separate key for an agent with `npx hearth keys create --role operator --tools ...`, and pass it with --api-key.',
        )
    })
}

function reached(command: Command): { baseUrl: string; key: string | undefined; names: 'safe' | 'slugs' } {
  const options = command.optsWithGlobals<McpOptions>()
  const { baseUrl, apiKey } = findPlatform(options, cliConfig())
  return { baseUrl, key: apiKey?.text, names: options.names }
}
