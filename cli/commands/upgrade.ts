import type { Command } from 'commander'
import { existingDeployment, withDataDir } from '../backup/deployment.ts'
import { inOneLine } from '../backup/failures.ts'
import { CliError, usageError } from '../cli-error.ts'
import { formatCheck } from '../doctor/check.ts'
import { print } from '../print.ts'

/** Compares this checkout with a deployment's database. */
export function upgradeCommand(upgrade: Command): void {
  withDataDir(upgrade)
    .option(
      '--check',
      'show pending migrations, whether a rollback stays possible, and what must be done first',
    )
    .action(async (flags: { dataDir?: string; check?: boolean }, command: Command) => {
      if (!flags.check)
        throw usageError('`hearth upgrade` only checks: pass --check. docs/upgrading.md has the steps.')
      const { json = false } = command.optsWithGlobals<{ json?: boolean }>()
      const { checkUpgrade } = await import('../backup/upgrade-check.ts')
      const report = await inOneLine('The check', () => checkUpgrade(existingDeployment(flags)))
      print({ json }, report, report.checks.map(formatCheck).join('\n'))
      if (!report.ready) throw new CliError('this deployment is not ready for the upgrade')
    })
}
