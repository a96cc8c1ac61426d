import assert from 'node:assert/strict'
import { pino } from 'pino'
import { temporalLogger } from '../../workers/temporal-logger.ts'

describe('lines of the Temporal SDK', () => {
  it('say why something failed, and hold no token that could end it', () => {
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
})
