import { isCancellation, proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { POLICY } from './contract/policy.ts'

const { removeOutlivedFiles, removeOutlivedRows, removeOrphanedUploads, resealSecrets } =
  proxyActivities<ControlActivities>(POLICY.maintain)

/**
 * The maximum number of steps of one kind per pass. The rest wait for the next pass, so that a backlog never blocks the
 * schedule.
 */
const MAX_STEPS = 50

interface RetentionTotals {
  rows: number
  files: number
}

/** Runs a single pass, for schedules created by earlier versions; fails if any step failed. */
export async function retention(): Promise<RetentionTotals> {
  const { removed, failures } = await retentionPass()
  if (failures.length > 0) throw failures[0]
  return removed
}

/** Removes expired data. If one kind of step fails, the others still run; its error is returned with the counts. */
export async function retentionPass(): Promise<{ removed: RetentionTotals; failures: readonly unknown[] }> {
  const removed = { rows: 0, files: 0 }
  const failures: unknown[] = []
  const step = async (run: () => Promise<void>) => {
    try {
      await run()
    } catch (err) {
      if (isCancellation(err)) throw err
      failures.push(err)
    }
  }

  for (const [kind, remove] of [
    ['rows', removeOutlivedRows],
    ['files', removeOutlivedFiles],
  ] as const) {
    await step(async () => {
      for (let steps = 0, more = true; more && steps < MAX_STEPS; steps++) {
        const done = await remove()
        removed[kind] += done.count
        more = done.more
      }
    })
  }
  await step(async () => {
    removed.files += (await removeOrphanedUploads()).count
  })
  let resealed = 0
  await step(async () => {
    for (let steps = 0, more = true; more && steps < MAX_STEPS; steps++) {
      const done = await resealSecrets()
      resealed += done.count
      more = done.more
    }
  })
  setCurrentDetails(
    `Removed ${removed.rows} rows and ${removed.files} files; re-encrypted ${resealed} secrets with the first key.`,
  )
  return { removed, failures }
}
