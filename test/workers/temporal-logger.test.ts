import assert from 'node:assert/strict'
import { pino } from 'pino'
import { temporalLogger } from '../../workers/temporal-logger.ts'
import { emit } from '../../workflows/events.ts'

describe('temporalLogger', () => {
  it('logs why something failed, without any task token', () => {
    const lines: string[] = []
    const log = pino({ base: null }, { write: (line: string) => void lines.push(line) })
    const error = new Error('Activity task failed', { cause: new Error('the weights are torn') })

    temporalLogger(log).warn('Activity failed', { error, taskToken: 'CiQw', attempt: 3 })

    const { err, ...rest } = JSON.parse(lines[0] ?? '') as { err: { message: string } } & Record<
      string,
      unknown
    >
    assert.match(err.message, /Activity task failed.*the weights are torn/)
    assert.deepEqual([rest.attempt, rest.taskToken], [3, undefined])
  })

  it("logs a stopping worker's shutdown errors as debug, and leaves all other levels unchanged", () => {
    const levels: number[] = []
    const write = (line: string) => void levels.push((JSON.parse(line) as { level: number }).level)
    const sdk = temporalLogger(pino({ base: null, level: 'debug' }, { write }))
    const ended = 'shutdown_worker rpc errored during worker shutdown: Status { code: Unauthenticated }'

    sdk.warn(ended)
    sdk.log('WARN', ended, { sdkComponent: 'core' } as never)
    sdk.log('WARN', 'gRPC call poll_activity_task_queue retried 5 times')
    sdk.log('ERROR', ended)

    assert.deepEqual(levels, [20, 20, 40, 50])
  })

  it('emits the event temporal.log, except for workflow events with their own names', () => {
    const names: unknown[] = []
    const write = (line: string) => void names.push((JSON.parse(line) as { event: unknown }).event)
    const sdk = temporalLogger(pino({ base: null }, { write }))

    sdk.warn('Activity failed', { attempt: 3 })
    emit({ warn: (fields, sentence = '') => sdk.warn(sentence, { ...fields }) }, 'housekeeping.pass_failed', {
      kind: 'reconcile',
      failures: 1,
      err: new Error('no'),
    })

    assert.deepEqual(names, ['temporal.log', 'housekeeping.pass_failed'])
  })
})
