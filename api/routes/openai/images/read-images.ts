import { NO_TOKENS } from '../../../../domain/chat/chat.ts'
import { ApiError, temporaryError } from '../../../../domain/errors.ts'
import type { ImageList } from '../../../../schemas/openai/images.ts'
import type { NodeResponse } from '../../../gateway/links/buffered-response.ts'
import { storeOutputs } from '../../../inference/stored-outputs.ts'
import { signOutputs } from '../../../inference/task-result.ts'
import type { Services } from '../../../services.ts'
import type { ModelCall } from '../calls/model-call.ts'
import { type ProducedFile, readFiles } from '../calls/read-files.ts'
import type { ClientResponse } from '../calls/respond-buffered.ts'

type Facts = Omit<ImageList, 'data'>

interface ImageResponse {
  answer: NodeResponse
  files: readonly ProducedFile[]
  facts: Facts
}

/** Returns images as the client requested them: in the response itself, or stored with URLs. */
export async function readImages(
  services: Services,
  { draft }: ModelCall,
  answer: NodeResponse,
  format: 'b64_json' | 'url' = 'b64_json',
): Promise<ClientResponse | ApiError> {
  const output = await readFiles(answer)
  if (output instanceof ApiError) return output
  const { files, metadata } = output
  const facts = factsOf(metadata, services.now())
  if (format === 'b64_json') return { body: inside({ answer, files, facts }), tokens: NO_TOKENS }
  const outputs = await storeOutputs(services, draft, files)
  const result = Buffer.from(JSON.stringify({ metadata }))
  const signed = await signOutputs(services.objects, outputs)
  const list: ImageList = { ...facts, data: signed.map(({ url }) => ({ url })) }
  return { body: Buffer.from(JSON.stringify(list)), tokens: NO_TOKENS, stored: { result, outputs } }
}

function factsOf({ width, height, seed, truncated }: Record<string, unknown>, now: Date): Facts {
  return {
    created: Math.floor(now.getTime() / 1_000),
    output_format: 'png',
    ...(typeof width === 'number' && typeof height === 'number' && { size: `${width}x${height}` }),
    ...(typeof seed === 'number' && { seed }),
    ...(truncated === true && { truncated }),
  }
}

const BASE64_FACTOR = 4 / 3

/**
 * Returns the JSON text with the bytes of the files; serializing them as strings would take two more copies in memory.
 */
function inside({ answer: { room }, files, facts }: ImageResponse): Buffer {
  const bytes = files.reduce((sum, { data }) => sum + data.length, 0)
  if (!room.grow(Math.ceil(bytes * BASE64_FACTOR))) {
    throw temporaryError(
      'no_capacity',
      'the images are too large to send now; request fewer, or response_format url',
      1,
    )
  }
  const parts = files.flatMap(({ data }, i) => [
    Buffer.from(`${i === 0 ? '' : ','}{"b64_json":"`),
    Buffer.from(data.toString('base64'), 'latin1'),
    Buffer.from('"}'),
  ])
  const begun = Buffer.from(`${JSON.stringify(facts).slice(0, -1)},"data":[`)
  return Buffer.concat([begun, ...parts, Buffer.from(']}')])
}
