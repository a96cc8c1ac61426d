import { ConfigError } from '../platform/config.ts'
import { CliError, WRONG_USE } from './cli-error.ts'
import { createProgram } from './program.ts'

async function main(args: string[]): Promise<void> {
  // `hearth admin node-token` is the same as `hearth node-token`.
  await createProgram().parseAsync(args[0] === 'admin' ? args.slice(1) : args, { from: 'user' })
}

main(process.argv.slice(2)).catch((err: unknown) => {
  const isTold = err instanceof CliError || err instanceof ConfigError
  console.error(isTold ? `hearth: ${err.message}` : err)
  process.exitCode = err instanceof CliError ? err.exitCode : isTold ? WRONG_USE : 70
})
