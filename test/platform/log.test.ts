import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { operationOf } from '../../api/http/operation.ts'
import { orchestrator } from '../../api/routes/orchestrator/family.ts'
import { runProgram } from '../../platform/processes/run-program.ts'

const LOG = new URL('../../platform/log.ts', import.meta.url).href

/** Returns the output of a program that has `log` in scope. */
async function written(program: string, options = '{}'): Promise<string> {
  const text = `import { createLogger } from '${LOG}'; const log = createLogger('test', 'info', ${options}); ${program}`
  const { stdout } = await runProgram(process.execPath, ['--input-type=module', '-e', text])
  return stdout
}

describe('the log', function () {
  this.timeout(20_000)

  it('does not contain the row that the database rejected', async () => {
    const line = await written(`
      const err = Object.assign(new Error('violates a constraint'), { code: '23514' })
      log.error({ err: Object.assign(err, { detail: 'Failing row contains (my prompt)', where: 'my prompt' }) }, 'no')`)

    assert.match(line, /violates a constraint.*23514/)
    assert.ok(!line.includes('my prompt'))
  })

  it('loses no buffered line, however the program ends', async () => {
    const written100 = (end: string) =>
      written(
        `for (let i = 0; i < 100; i++) log.info({ i, word: 'é' }, 'a line'); ${end}`,
        '{ buffered: true }',
      )
    const many = written(`for (let i = 0; i < 3_000; i++) log.info({ i }, 'a line')`, '{ buffered: true }')
    // The output is a pipe with less capacity than the data at the process's exit.
    const ended = written(
      `for (let i = 0; i < 3_000; i++) log.info({ i, text: 'x'.repeat(200) }, 'a line'); process.exit()`,
      '{ buffered: true }',
    )
    const texts = [
      written100(''),
      written100('process.exit()'),
      written100(`log.fatal('no'); process.exit()`),
      many,
      ended,
    ]
    for (const [n, text] of (await Promise.all(texts)).entries()) {
      const numbers = text
        .trimEnd()
        .split('\n')
        .flatMap((line) => (JSON.parse(line) as { i?: number }).i ?? [])
      assert.deepEqual(numbers, [...Array(n < 3 ? 100 : 3_000).keys()])
    }
  })

  it('writes a buffered line soon, while the program continues', async () => {
    const program = `import { createLogger } from '${LOG}'
      createLogger('test', 'info', { buffered: true }).info('now'); setInterval(() => {}, 1_000)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program])
    const [line] = (await once(child.stdout, 'data')) as [Buffer]
    child.kill('SIGKILL')
    assert.match(line.toString(), /"msg":"now"/)
  })

  it('logs the route template when the path contains a credential', () => {
    const of = (operationId: string) => {
      const route = orchestrator.routes.find((each) => each.operationId === operationId)!
      return operationOf(route, orchestrator).loggedPath
    }

    assert.equal(of('completeLease'), '/api/v1/leases/{lease_token}:complete')
    assert.equal(of('getHubFile'), '/api/v1/hub-files/{grant}')
    assert.equal(of('claimTask'), undefined)
  })
})
