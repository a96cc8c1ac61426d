import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type Docker from 'dockerode'
import { temporaryFolder } from '../../builders/temporary-folder.ts'

/**
 * A fake container engine that has every image, except those that it `lacks` until they are pulled. It records each
 * request to create a container, and rejects it.
 */
export interface EngineRecorder extends AsyncDisposable {
  readonly socketPath: string
  readonly created: readonly Docker.ContainerCreateOptions[]
  /** The number of pulls that have begun. */
  readonly pulls: number
  /** Sends an event of the pull in progress. */
  progress(event: object): void
  /** Completes the pull in progress, by default with its image. */
  endPull(error?: string): void
}

export async function startEngineRecorder({ lacks = false } = {}): Promise<EngineRecorder> {
  const folder = temporaryFolder()
  const socketPath = join(folder.path, 'engine.sock')
  const created: Docker.ContainerCreateOptions[] = []
  const pulls: ServerResponse[] = []
  let hasImage = !lacks
  const note = async (req: IncomingMessage, res: ServerResponse) => {
    const answer = (status: number, body: object) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const url = req.url ?? ''
    if (url.startsWith('/containers/create')) {
      created.push((await json(req)) as Docker.ContainerCreateOptions)
      answer(500, { message: 'noted' })
    } else if (url.startsWith('/images/create')) {
      res.writeHead(200, { 'content-type': 'application/json' })
      pulls.push(res)
      res.flushHeaders()
    } else if (url.startsWith('/images/') && !hasImage) answer(404, { message: 'no such image' })
    else if (url.startsWith('/containers/json')) answer(200, [] as object)
    else if (req.method === 'GET') answer(200, {})
    else answer(404, { message: 'no such container' })
  }
  const server = createServer((req, res) => void note(req, res))
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  return {
    socketPath,
    created,
    get pulls() {
      return pulls.length
    },
    progress: (event) => void pulls.at(-1)?.write(`${JSON.stringify(event)}\n`),
    endPull(error) {
      hasImage = error === undefined
      pulls.at(-1)?.end(error === undefined ? '' : `${JSON.stringify({ error })}\n`)
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      folder[Symbol.dispose]()
    },
  }
}
