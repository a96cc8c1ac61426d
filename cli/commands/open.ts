import { spawn } from 'node:child_process'
import type { Command } from 'commander'
import { cliConfig } from '../cli-config.ts'
import { findPlatform, type GlobalOptions } from '../platform.ts'
import { print } from '../print.ts'

const OPENERS: Partial<Record<NodeJS.Platform, readonly string[]>> = {
  darwin: ['open'],
  win32: ['cmd', '/c', 'start', ''],
}

/** Opens the console. The URL contains no key, because other local users can see the arguments of programs. */
export function openCommand(open: Command): void {
  open
    .option('--print', 'only print its URL')
    .action(async (options: { print?: boolean }, command: Command) => {
      const globals = command.optsWithGlobals<GlobalOptions>()
      const url = `${findPlatform(globals, cliConfig()).baseUrl}/console/`
      const isOpened = !options.print && !globals.json && (await opened(url))
      const text = isOpened ? `${url} is open in the browser; it asks for an API key.` : url
      print({ json: globals.json ?? false }, { url }, text)
    })
}

function opened(url: string): Promise<boolean> {
  const [program = '', ...args] = OPENERS[process.platform] ?? ['xdg-open']
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true })
  return new Promise((resolve) => {
    child.once('error', () => resolve(false))
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}
