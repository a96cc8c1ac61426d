import { proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { POLICY } from './contract/policy.ts'

const { removeJobFiles } = proxyActivities<ControlActivities>(POLICY.remove)

export interface JobRemovalInput {
  jobId: string
}

/** Removes the files of a deleted run or merge from the object store. */
export async function jobRemoval({ jobId }: JobRemovalInput): Promise<void> {
  setCurrentDetails('Removing the files from the object store.')
  await removeJobFiles(jobId)
  setCurrentDetails('Removed.')
}
