import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import type { OfferedTool } from '../../schemas/admin.ts'
import { usageError } from '../cli-error.ts'
import { open } from '../context.ts'
import { print, table } from '../print.ts'

/** Commands for the tools that the platform offers. */
export function toolCommands(tools: Command): void {
  tools
    .command('add <folder>')
    .description('add or replace the tool that the tool.json in a folder describes')
    .action(async (folder: string, _options: unknown, command: Command) => {
      const context = open(command)
      const added = await context.client.call<OfferedTool>('POST', '/tools', readTool(folder))
      print(context, added, `${added.slug} is available as endpoint ${added.endpoint_id}.`)
    })
  tools
    .command('list')
    .alias('ls')
    .description('list the available tools')
    .action(async (_options: unknown, command: Command) => {
      const context = open(command)
      const answer = await context.client.call<{ tools: OfferedTool[] }>('GET', '/tools')
      const rows = answer.tools.map(({ slug, origin, network, image }) => [slug, origin, network, image])
      print(context, answer, table(['TOOL', 'ORIGIN', 'NETWORK', 'IMAGE'], rows))
    })
  tools
    .command('remove <slug>')
    .description('remove a tool')
    .action(async (slug: string, _options: unknown, command: Command) => {
      const context = open(command)
      await context.client.call('DELETE', `/tools/${encodeURIComponent(slug)}`)
      print(context, { slug }, `Removed ${slug}.`)
    })
}

function readTool(folder: string): unknown {
  const file = join(folder, 'tool.json')
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (err) {
    const why = err instanceof SyntaxError ? `is not JSON: ${err.message}` : 'cannot be read'
    throw usageError(`${file} ${why}; expected a tool description (docs/tools.md)`)
  }
}
