import {
  CancellationScope,
  isCancellation,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
} from '@temporalio/workflow'
import type { ControlActivities } from '../activities/control/index.ts'
import { LOCAL, POLICY } from './contract/policy.ts'

const { ingestDataset } = proxyActivities<ControlActivities>(POLICY.ingest)
const { giveUpIngest } = proxyLocalActivities<ControlActivities>(LOCAL.record)

export interface DatasetIngestInput {
  uploadId: string
}

/**
 * Reads an uploaded file from end to end, then makes it the dataset's content or refuses it. The commit request waits
 * for this workflow.
 */
export async function datasetIngest({ uploadId }: DatasetIngestInput): Promise<{ status: string }> {
  setCurrentDetails('Reading the file: every row is parsed and counted.')
  try {
    const { status, numSamples } = await ingestDataset(uploadId)
    setCurrentDetails(
      status === 'ready'
        ? `Ready: ${numSamples} rows.`
        : "Refused: the dataset's row records the reason, with the line number if there is one.",
    )
    return { status }
  } catch (err) {
    // A cancellation must not interrupt the step that records it.
    await CancellationScope.nonCancellable(() => giveUpIngest(uploadId, isCancellation(err)))
    throw err
  }
}
