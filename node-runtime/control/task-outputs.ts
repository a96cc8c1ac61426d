import type { TaskOutput, UploadUrls } from '../../schemas/nodes/lease.ts'
import type { ReceivedFile } from '../models/output-stream.ts'
import { putFile } from '../weights/transfer.ts'
import type { ControlClient } from './client.ts'
import { type CapacityWait, retryUntilCapacity } from './retry-until-capacity.ts'

/**
 * Uploads the files of a task's result to URLs that a gateway signs under its lease. Waits for room without a time
 * limit.
 */
export async function uploadOutputs(
  control: Pick<ControlClient, 'lease'>,
  leaseToken: string,
  files: readonly ReceivedFile[],
  {
    signal,
    onStored,
    onWait,
  }: { signal: AbortSignal; onStored: (count: number) => void; onWait: CapacityWait['onWait'] },
): Promise<TaskOutput[]> {
  const outputs = files.map(({ filename, size_bytes, sha256, content_type, modality }): TaskOutput => ({
    filename,
    size_bytes,
    sha256,
    content_type,
    modality,
  }))
  const wanted = outputs.map(({ filename, size_bytes, sha256, content_type }) => ({
    kind: 'output',
    filename,
    size_bytes,
    sha256,
    content_type,
  }))
  const stored = new Set<string>()
  const store = async () => {
    const missing = wanted.filter(({ filename }) => !stored.has(filename))
    const urls = await control.lease<UploadUrls>('urls', leaseToken, { files: missing }, { signal })
    for (const { filename, url, content_type, headers = { 'content-type': content_type } } of urls.files) {
      const file = files.find((one) => one.filename === filename)
      if (file) await putFile(url, file.path, { headers, signal })
      stored.add(filename)
      onStored(stored.size)
    }
  }
  await retryUntilCapacity(store, { signal, onWait })
  return outputs
}
