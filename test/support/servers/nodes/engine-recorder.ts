import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import type Docker from 'dockerode'
import { temporaryFolder } from '../../builders/temporary-folder.ts'

/** A fake container engine that has every image. It records each request to create a container, and rejects it. */
export interface EngineRecorder extends AsyncDisposable {
  readonly socketPath: string
  readonly created: readonly Docker.ContainerCreateOptions[]
}

export async function startEngineRecorder(): Promise<EngineRecorder> {
  const folder = temporaryFolder()
  const socketPath = join(folder.path, 'engine.sock')
  const created: Docker.ContainerCreateOptions[] = []
  const note = async (req: IncomingMessage, res: ServerResponse) => {
    const answer = (status: number, body: object) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    const url = req.url ?? ''
    if (url.startsWith('/containers/create')) {
      created.push((await json(req)) as Docker.ContainerCreateOptions)
      answer(500, { message: 'noted' })
    } else if (req.method === 'GET') answer(200, {})
    else answer(404, { message: 'no such container' })
  }
  const server = createServer((req, res) => void note(req, res))
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  return {
    socketPath,
    created,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      folder[Symbol.dispose]()
    },
  }
}
