import { CliError, WRONG_USE } from './cli-error.ts'
import { NOUNS } from './command-registry.ts'
import { printStatus } from './print.ts'
import { createProgram } from './program.ts'

/** Exit code for a bug in this program, which is printed with its stack. */
const FAULT = 70

async function main(args: string[]): Promise<void> {
  await createProgram().parseAsync(meantBy(args), { from: 'user' })
}

/** Treats `hearth admin node-token` as `hearth node-token`, and `help runs` as `runs --help`. */
function meantBy(given: string[]): string[] {
  const args = withoutProfile(given)
  const [word, ...rest] = args
  if (word === 'admin') return rest
  return word === 'help' && rest.length > 0 ? [...rest, '--help'] : args
}

/** Removes `--profile NAME` in front of the noun; after the noun, it's an option of the verb. */
function withoutProfile(args: string[]): string[] {
  const at = args.indexOf('--profile')
  const name = args[at + 1]
  const isAhead = !args.slice(0, at).some((word) => NOUNS.some((noun) => noun.name === word))
  if (at === -1 || !name || !isAhead) return args
  process.env['HEARTH_PROFILE'] = name
  return args.toSpliced(at, 2)
}

// A reader that stops early, such as `head`, isn't an error.
process.stdout.on('error', (err: NodeJS.ErrnoException) => {
  if (err.code !== 'EPIPE') throw err
  process.exit(0)
})

/** Returns the remaining validation errors of a rejected request; the message already has the first. */
function othersIn({ message, issues }: CliError): string[] {
  const faults = issues.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`)
  return faults.filter((fault) => !message.includes(fault))
}

main(process.argv.slice(2)).catch((err: unknown) => {
  // We don't import the class, because loading the settings module would double the startup time.
  const isSetting = err instanceof Error && err.name === 'ConfigError'
  const isTold = err instanceof CliError || isSetting
  if (isTold) {
    printStatus(`hearth: ${err.message}`)
    if (err instanceof CliError) for (const words of othersIn(err)) printStatus(`        ${words}`)
  }
  // oxlint-disable-next-line no-console -- the stack of a bug in this program
  else console.error(err)
  process.exitCode = err instanceof CliError ? err.exitCode : isSetting ? WRONG_USE : FAULT
})
