import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { eventually } from '../support/assertions/until.ts'
import { blocksOf } from '../support/builders/cohorts/cohorts-page.ts'
import { requireSpecialist } from '../support/builders/models/tiny-specialist.ts'
import { DIRECT_NPX } from '../support/servers/page-shell.ts'
import { dataDirectory, startTestPlatform, type TestPlatform } from '../support/servers/platform.ts'
import { requireLlamaCpp } from '../support/servers/worlds/llm-world.ts'

const FUNCTIONS = 'docs/examples/cohorts/functions.sh'
const PAGES = ['docs/cohorts.md', 'docs/cohorts-evaluator.md']

describe('commands in docs/cohorts.md', function () {
  this.timeout(900_000)
  let data: ReturnType<typeof dataDirectory>
  let platform: TestPlatform
  let second: ChildProcess | undefined
  const neverRun = new Set(PAGES.flatMap((page) => blocksOf('sh', page)))

  before(requireLlamaCpp)
  before(requireSpecialist)
  before(async () => {
    data = dataDirectory()
    platform = await startTestPlatform(data.path)
    assert.match(await typed('npm run tiny-models').output, /draft-a\.gguf.*texts\.jsonl/)
  })
  after(async () => {
    if (second?.pid && second.exitCode === null) {
      // Like Ctrl-C, which signals every process in a terminal.
      process.kill(-second.pid, 'SIGINT')
      await once(second, 'exit')
    }
    await platform?.stop()
    data?.[Symbol.dispose]()
  })

  /** Runs the page's block that contains `words` in a shell with the test's `HEARTH_DATA_DIR`. */
  function typed(
    words: string,
    page = 'docs/cohorts.md',
  ): { child: ChildProcess; readOutput: () => string; output: Promise<string> } {
    const found = blocksOf('sh', page).filter((text) => text.includes(words))
    assert.equal(found.length, 1, words)
    neverRun.delete(found[0]!)
    const child = spawn('bash', ['-c', `. ${FUNCTIONS}\n${DIRECT_NPX}\n${found[0]}`], {
      env: { ...process.env, HEARTH_DATA_DIR: data.path },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (text += String(chunk)))
    return { child, readOutput: () => text, output: once(child, 'close').then(() => text) }
  }

  it("return a panel's verdict (S1)", async () => {
    const output = await typed('train urgency').output

    assert.match(output, /urgency: (?:pending|running), 0 s[^]*Endpoint urgency serves it/)
    assert.match(output, /cohort\.queued[^]*cohort\.started[^]*stage\.called classifier attempt 1/)
    assert.match(output, /Critical path: .*judge/)
    assert.match(output, /"verdict": "Take the first\."/)
  })

  it('return the same verdict over HTTP', async () => {
    const output = await typed('cohorts:run').output

    assert.match(output, /"feasible":true[^]*"verdict": "Take the first\."/)
  })

  it('put a new encoder in front of an old classifier once evidence is registered (S2)', async () => {
    const refused = await typed('vectors.mjs').output
    const registered = await typed('same_as').output
    const measured = await typed('measure').output
    const revoked = await typed('revoke').output

    assert.match(refused, /space_mismatch: .*same_as/)
    assert.match(registered, /"label": "warm"[^]*evidence_missing/)
    assert.match(
      measured,
      /measure: judging, \d+ s[^]*status: 'registered'[^]*vector +embedding[^]*"label": "warm"/,
    )
    assert.match(revoked, /evidence_revoked/)
  })

  it('register evidence from a custom program (docs/cohorts-evaluator.md)', async () => {
    const output = await typed('evidence.mjs', 'docs/cohorts-evaluator.md').output

    assert.match(output, /"evidence_id":"[-0-9a-f]{36}","status":"active"/)
  })

  it('read a prompt on one node and continue it on another (S3)', async () => {
    const { child, readOutput: said } = typed('npx node workers/node.ts')
    second = child
    await eventually('a second node', () => said().includes('accepting work') || undefined, 120_000)

    const output = await typed('prefill-decode.json').output

    // The plan chooses which of the two nodes reads the prompt.
    const [, reader] = /stage\.succeeded prefill attempt 1 on (\w+)/.exec(output) ?? []
    const [, writer] = /stage\.succeeded decode attempt 1 on (\w+)/.exec(output) ?? []
    assert.ok(reader && writer && reader !== writer && [reader, writer].includes('second'), output)
    assert.match(output, /"answer": "I have read all of it, and go on here\."/)
  })

  it('hand over the vectors of many texts in frames', async () => {
    const output = await typed('many-texts.json').output

    assert.match(output, /vectors +embedding +direct, session/)
    assert.match(output, /edge\.opened vectors[^]*"first": "warm",\n {2}"last": "cold"/)
  })

  it('are all run by these tests', () => {
    assert.deepEqual([...neverRun], [])
  })
})
