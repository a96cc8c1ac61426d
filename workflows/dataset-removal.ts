import { proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { POLICY } from './contract/policy.ts'

const { removeDatasetFiles } = proxyActivities<ControlActivities>(POLICY.remove)

export interface DatasetRemovalInput {
  datasetId: string
}

/** Removes the files of a deleted dataset from the object store. */
export async function datasetRemoval({ datasetId }: DatasetRemovalInput): Promise<void> {
  setCurrentDetails('Removing the files from the object store.')
  await removeDatasetFiles(datasetId)
  setCurrentDetails('Removed.')
}
