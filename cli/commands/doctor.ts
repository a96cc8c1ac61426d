import type { Command } from 'commander'
import { cliConfig } from '../cli-config.ts'
import { CliError } from '../cli-error.ts'
import { type Check, formatCheck, wrong } from '../doctor/check.ts'
import { checkMachine } from '../doctor/machine.ts'
import { checkPlatform } from '../doctor/platform.ts'
import { findPlatform, type GlobalOptions } from '../platform.ts'
import { print } from '../print.ts'

/** Diagnoses this machine and the platform. */
export function doctorCommand(doctor: Command): void {
  doctor.action(async (_options: object, command: Command) => {
    const options = command.optsWithGlobals<GlobalOptions>()
    const config = cliConfig()
    const checks = [...(await checkMachine(config)), ...(await checkReached(options))]
    print({ json: options.json ?? false }, checks, checks.map(formatCheck).join('\n'))
    const count = checks.filter(({ state }) => state === 'wrong').length
    if (count > 0) throw new CliError(count === 1 ? 'one check failed' : `${count} checks failed`)
  })
}

/** If there is no platform to check, returns that as the only finding. */
async function checkReached(options: GlobalOptions): Promise<Check[]> {
  try {
    return await checkPlatform(findPlatform(options, cliConfig()))
  } catch (err) {
    if (err instanceof CliError) return [wrong('Platform', err.message, 'npx hearth login, or npm start')]
    throw err
  }
}
