import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { callModel, readAnswer } from '../../../../activities/node/models/call-model.ts'
import { ServerTurns } from '../../../../node-runtime/models/server-turns.ts'
import { WatchedPool } from '../../../../node-runtime/models/watched-pool.ts'
import { OUTPUT_TYPE } from '../../../../platform/model-output.ts'
import { SOON_MS } from '../../../support/assertions/until.ts'

describe("a task's turn at a model server", () => {
  it("ends with the answer, even when its files can't be stored", async () => {
    const server = createServer((req, res) => {
      req.resume()
      res.setHeader('content-type', OUTPUT_TYPE)
      res.end('x'.repeat(300_000))
    }).listen(0)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const pool = new WatchedPool(`http://127.0.0.1:${port}`, { connections: 1 })
    const turns = new ServerTurns(1)
    const signal = AbortSignal.timeout(SOON_MS)
    const ask = () =>
      callModel({ pool, turns } as never, { path: '/', body: Buffer.from('{}'), turn: 'a' }, signal)

    const deps = { workDir: '/dev/null/none' } as never
    const held = { subjectId: 'task' } as never
    for (let i = 0; i < 3; i++) await assert.rejects(readAnswer(deps, held, await ask(), signal), /ENOTDIR/)

    const last = await ask()
    await last.body.dump()
    await pool.destroy()
    server.close()
  })
})
