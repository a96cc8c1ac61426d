import assert from 'node:assert/strict'
import { pino } from 'pino'
import { emit } from '../../../api/events.ts'
import { requestLog } from '../../../api/http/request-log.ts'

const WHOLE = {
  requestId: 'r1',
  method: 'GET',
  path: '/a"b',
  operation: 'getIt',
  accountId: 'a1',
  call: { rpcMethod: 'tools/call', tool: 'a"b' },
  status: 503,
  code: 'no_capacity',
  ms: 1.5,
}

describe('the request log entry', () => {
  it('is the event request.answered, formatted like every other log entry', () => {
    const lines: string[] = []
    const log = pino({ base: { zone: 'z1' } }, { write: (line: string) => void lines.push(line) })
    const write = requestLog(log)

    write(WHOLE)
    write({ ...WHOLE, operation: undefined, accountId: undefined, call: undefined, code: undefined })

    const [whole = {}, stranger = {}] = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    const { time: _time, ...rest } = whole
    assert.deepEqual(rest, {
      level: 30,
      zone: 'z1',
      event: 'request.answered',
      request_id: 'r1',
      method: 'GET',
      path: '/a"b',
      operation: 'getIt',
      account_id: 'a1',
      rpc_method: 'tools/call',
      tool: 'a"b',
      status: 503,
      code: 'no_capacity',
      ms: 1.5,
    })
    assert.deepEqual(
      Object.keys(emit.events['request.answered'].fields),
      Object.keys(rest).filter((field) => !['level', 'zone', 'event'].includes(field)),
    )
    for (const field of ['operation', 'account_id', 'rpc_method', 'tool', 'code'])
      assert.ok(!(field in stranger))
  })

  it('is not written at log level warn', () => {
    const lines: string[] = []
    const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })

    requestLog(log)(WHOLE)

    assert.deepEqual(lines, [])
  })
})
