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
  it('is a line with its name, its fields and its sentence', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.boiled', { ms: 7, cups: ['blue'] })
    emit(log, 'kettle.emptied')

    assert.deepEqual(lines, [
      { level: 30, event: 'kettle.boiled', ms: 7, cups: ['blue'], msg: 'the water boils' },
      { level: 30, event: 'kettle.emptied', msg: 'the kettle is empty' },
    ])
  })

  it('takes the texts of its sentence as they are', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.filled', { ml: 300 }, { source: '{note} $& %s', note: 'cold' })

    assert.equal(lines[0]?.['msg'], 'filled from {note} $& %s: cold')
  })

  it('has the words of its error where it has no sentence', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.broke', { err: new Error('the lid is stuck') })

    assert.deepEqual([lines[0]?.['event'], lines[0]?.['msg']], ['kettle.broke', 'the lid is stuck'])
  })

  it('has the level that it was given where it may have any', () => {
    const { log, lines } = opened()

    emit(log, 'kettle.log', {}, { message: 'hot', level: 'error' })

    assert.deepEqual(lines, [{ level: 50, event: 'kettle.log', msg: 'hot' }])
  })

  it('carries what is bound to its logger', () => {
    const { log, lines } = opened()

    emit(log.child({ request_id: 'r1' }), 'kettle.emptied')

    assert.equal(lines[0]?.['request_id'], 'r1')
  })

  it('is emitted with the fields that it declares, or does not compile', () => {
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
