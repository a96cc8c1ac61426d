import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { temporaryFolder } from '../builders/temporary-folder.ts'

/**
 * Opens a socket that makes the first fake model server exit and lets later ones run. We use a socket, because model
 * servers can't write files.
 */
export async function dieOnce(): Promise<Disposable & { path: string }> {
  const folder = temporaryFolder()
  const path = join(folder.path, 'die.sock')
  let isFirst = true
  const server = createServer((socket) => {
    socket.end(isFirst ? 'die' : 'live')
    isFirst = false
  })
  await once(server.listen(path), 'listening')
  return {
    path,
    [Symbol.dispose]: () => {
      server.close()
      folder[Symbol.dispose]()
    },
  }
}
