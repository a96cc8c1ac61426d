import assert from 'node:assert/strict'
import { pino } from 'pino'
import { anyLevel, defineEvents, info, warn } from '../../platform/events.ts'
import { createLogger } from '../../platform/log.ts'

const emit = defineEvents({
  'kettle.boiled': info('the water boils', { ms: 'number', cups: 'string[]?' }),
  'kettle.emptied': info('the kettle is empty', {}),
  'kettle.filled': info('filled from {source}: {note}', { ml: 'number' }),
  'kettle.broke': warn(undefined, { err: 'error' }),
  'kettle.log': anyLevel('{message}', {}),
})

function opened() {
  const lines: Record<string, unknown>[] = []
  const write = (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>)
  return { log: pino({ base: null, timestamp: false, level: 'trace' }, { write }), lines }
}

describe('an event', () => {
  it('is a line with its name, fields and message', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.boiled', { ms: 7, cups: ['blue'] })
    emit(log, 'kettle.emptied')

    assert.deepEqual(lines, [
      { level: 30, event: 'kettle.boiled', ms: 7, cups: ['blue'], msg: 'the water boils' },
      { level: 30, event: 'kettle.emptied', msg: 'the kettle is empty' },
    ])
  })

  it('inserts strings into its message unchanged', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.filled', { ml: 300 }, { source: '{note} $& %s', note: 'cold' })

    assert.equal(lines[0]?.['msg'], 'filled from {note} $& %s: cold')
  })

  it("uses its error's message when it has no message", () => {
    const { log, lines } = opened()

    emit(log, 'kettle.broke', { err: new Error('the lid is stuck') })

    assert.deepEqual([lines[0]?.['event'], lines[0]?.['msg']], ['kettle.broke', 'the lid is stuck'])
  })

  it('uses the given level when its declaration allows any', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.log', {}, { message: 'hot', level: 'error' })

    assert.deepEqual(lines, [{ level: 50, event: 'kettle.log', msg: 'hot' }])
  })

  it("includes its logger's bindings", () => {
    const { log, lines } = opened()

    emit(log.child({ request_id: 'r1' }), 'kettle.emptied')

    assert.equal(lines[0]?.['request_id'], 'r1')
  })

  it('does not compile unless it is emitted with its declared fields', () => {
    const { log } = opened()
    const wrong = () => {
      // @ts-expect-error not an event
      createLogger('test', 'silent').info({ ms: 7 }, 'the water boils')
      // @ts-expect-error no such event
      emit(log, 'kettle.boilt')
      // @ts-expect-error no fields
      emit(log, 'kettle.boiled')
      // @ts-expect-error not a number
      emit(log, 'kettle.boiled', { ms: '7' })
      // @ts-expect-error not a field
      emit(log, 'kettle.boiled', { ms: 7, s: 7 })
      // @ts-expect-error not a field
      emit(log, 'kettle.filled', { ml: 1, cl: 1 }, { source: '', note: '' })
      // @ts-expect-error one of two texts
      emit(log, 'kettle.filled', { ml: 1 }, { source: '' })
      // @ts-expect-error no level
      emit(log, 'kettle.log', {}, { message: 'hot' })
    }
    assert.equal(typeof wrong, 'function')
  })
})
