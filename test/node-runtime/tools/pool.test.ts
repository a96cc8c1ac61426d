import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { SOON_MS, until } from '../../support/assertions/until.ts'
import { requireToolBench, type ToolBench } from '../../support/servers/nodes/tools.ts'

for (const kind of ['processes', 'containers'] as const)
  describe(`waiting tools with ${kind}`, function () {
    this.timeout(30_000)
    let bench: ToolBench
    beforeEach(async function () {
      bench = await requireToolBench(this, { pool: 1, inContainers: kind === 'containers' })
    })
    afterEach(() => bench?.[Symbol.asyncDispose]())

    const started = async () => (await bench.leftovers()).filter((name) => !name.startsWith('run-')).length

    it('serve one request each', async () => {
      const code = (n: number) => `
import os
print(os.path.exists("/tmp/seen"), ${n})
open("/tmp/seen", "w").close()`
      assert.equal((await bench.python(code(1))).stdout, 'False 1\n')
      await until(async () => (await started()) > 0)
      assert.equal((await bench.python(code(2))).stdout, 'False 2\n')
      assert.deepEqual(await bench.run('calculator', { expression: '2 + 2' }), { result: 4, text: '4' })
      await until(async () => (await started()) > 0)
      assert.deepEqual(await bench.run('calculator', { expression: '3 + 3' }), { result: 6, text: '6' })
      const long = await bench.run('run_javascript', {
        code: `console.log(${JSON.stringify('x'.repeat(150_000))}.length)`,
      })
      assert.equal(long['stdout'], '150000\n')
      const again = await bench.run('run_javascript', {
        code: `console.log(${JSON.stringify('x'.repeat(150_000))}.length)`,
      })
      assert.equal(again['stdout'], '150000\n')
    })

    it('have their full time limit when a request arrives', async () => {
      await bench.python('pass')
      await until(async () => (await started()) > 0)
      const begun = performance.now()
      await assert.rejects(bench.python('import time; time.sleep(60)', 1), {
        message: 'the tool was ended after 1 s, its time limit',
      })
      assert.ok(performance.now() - begun > 900)
    })

    it('are replaced when they die, and end with the node', async () => {
      await bench.run('calculator', { expression: '1' })
      await until(async () => (await started()) > 0)
      for (const pid of waitingIn()) process.kill(pid, 'SIGKILL')

      assert.deepEqual(await bench.run('calculator', { expression: '2' }), { result: 2, text: '2' })
      await bench.tools[Symbol.asyncDispose]()
      await until(async () => (await bench.leftovers()).length === 0, SOON_MS)
    })

    /** Lists the processes that run the calculator, as seen from outside. */
    const waitingIn = () =>
      readdirSync('/proc')
        .filter((name) => /^\d+$/.test(name))
        .filter((name) => {
          try {
            return readFileSync(`/proc/${name}/cmdline`, 'utf8').endsWith('-S\0/hearth/tool/main.py\0')
          } catch {
            return false
          }
        })
        .map(Number)
  })
