import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { temporaryFolder } from '../builders/temporary-folder.ts'

/**
 * Opens a socket that tells the first fake model server to exit, and all later ones to live. A socket,
 * because they can write no file.
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
