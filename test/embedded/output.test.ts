import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createOutput } from '../../embedded/output.ts'
import { until } from '../support/assertions/until.ts'
import { temporaryFolder } from '../support/builders/temporary-folder.ts'

describe('the console of npm start', () => {
  it('has the sentences of events, with their fields, and the log file the whole lines', async () => {
    using folder = temporaryFolder()
    const event = {
      level: 30,
      time: 1,
      event: 'gateway.started',
      base_url: 'http://x',
      msg: 'the gateway is ready',
    }
    const request = { level: 30, time: 1, event: 'request.answered', request_id: 'r', status: 200 }
    const text = [event, request].map((line) => `${JSON.stringify(line)}\n`).join('')
    const shown: string[] = []
    const { log } = console
    Object.assign(console, { log: (line: string) => void shown.push(line) })
    try {
      const output = createOutput(folder.path, { quiet: false })
      output.follow('gateway', [Readable.from([Buffer.from(text)])], { echo: true })
      const file = join(folder.path, 'gateway.log')
      await until(() => shown.length > 0 && readFileSync(file, 'utf8') === text)
    } finally {
      Object.assign(console, { log })
    }

    assert.equal(shown.length, 1)
    assert.match(shown[0] ?? '', / gateway {4}info the gateway is ready base_url=http:\/\/x$/)
  })
})
