import type { TaskOutput, UploadUrls } from '../../schemas/lease.ts'
import type { MadeFile } from '../models/output-stream.ts'
import { putFile } from '../weights/transfer.ts'
import type { ControlClient } from './client.ts'

/** Stores the files of a task's result by URLs that a gateway signs under its lease. */
export async function uploadOutputs(
  control: Pick<ControlClient, 'lease'>,
  leaseToken: string,
  files: readonly MadeFile[],
  { signal, onStored }: { signal: AbortSignal; onStored: (count: number) => void },
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
  const urls = await control.lease<UploadUrls>('urls', leaseToken, { files: wanted }, { signal })
  for (const [
    i,
    { filename, url, content_type, headers = { 'content-type': content_type } },
  ] of urls.files.entries()) {
    const file = files.find((one) => one.filename === filename)
    if (file) await putFile(url, file.path, { headers, signal })
    onStored(i + 1)
  }
  return outputs
}
