import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type ManagedProcess, ProcessDriver } from '../../../node-runtime/processes/process-driver.ts'
import { peakMb } from '../../../node-runtime/processes/process-usage.ts'
import { identify } from '../../../platform/processes/process-identity.ts'
import { treeOf } from '../../../platform/processes/process-tree.ts'
import { SOON_MS, until } from '../../support/assertions/until.ts'

const DRIVER = fileURLToPath(new URL('../../../node-runtime/processes/process-driver.ts', import.meta.url))

/** Ignores SIGTERM, and has a child in a separate session that does the same. Prints both process ids. */
const STUBBORN = `
trap '' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 60; done' &
echo "$$ $!"
while :; do sleep 60; done`

describe('the process driver', () => {
  let stateDir: string
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'hearth-driver-'))
  })
  afterEach(() => rm(stateDir, { recursive: true, force: true }))

  const newDriver = () => new ProcessDriver({ stateDir, python: async () => 'python3' })
  const shell = (driver: ProcessDriver, script: string) =>
    driver.start({ name: 'work', command: 'sh', args: ['-c', script], confinement: undefined })

  it('passes on output and exit status', async () => {
    const work = await shell(newDriver(), 'echo told; echo warned >&2; exit 75')

    assert.deepEqual(await linesOf(work), ['told'])
    assert.deepEqual(await work.exited, { code: 75 })
    assert.deepEqual(await readdir(join(stateDir, 'pids')), [])
  })

  it("keeps a command's output for callers that read it after the command has ended", async () => {
    const work = await shell(newDriver(), 'echo told')
    await work.exited

    assert.deepEqual(await linesOf(work), ['told'])
  })

  it('lets a command handle SIGTERM itself', async () => {
    const work = await shell(newDriver(), `trap 'exit 7' TERM; echo up; while :; do sleep 0.05; done`)
    await firstLine(work)

    assert.deepEqual(await work.stop({ graceMs: 5_000 }), { code: 7 })
  })

  it('ends a whole tree that ignores SIGTERM within a second', async () => {
    const work = await shell(newDriver(), STUBBORN)
    const pids = (await firstLine(work)).split(' ').map(Number)
    assert.ok(pids.every(identify))

    const startedAt = performance.now()
    await work.stop({ graceMs: 500 })

    assert.ok(performance.now() - startedAt < SOON_MS)
    assert.deepEqual(pids.map(identify), [undefined, undefined])
  })

  it('ends processes that a command leaves behind when it exits by itself', async () => {
    const work = await shell(newDriver(), 'setsid sleep 60 & echo $!')
    const orphan = Number(await firstLine(work))

    await work.exited

    assert.equal(identify(orphan), undefined)
  })

  it('reports 127 for a command that does not exist', async () => {
    const work = await newDriver().start({
      name: 'none',
      command: 'no-such-command',
      args: [],
      confinement: undefined,
    })

    assert.deepEqual(await work.exited, { code: 127 })
  })

  it('measures the peak memory of the tree', async () => {
    const script = 'x = bytearray(64 << 20); print("up", flush=True); import time; time.sleep(60)'
    const work = await newDriver().start({
      name: 'work',
      command: 'python3',
      args: ['-c', script],
      confinement: undefined,
    })
    await firstLine(work)

    const peak = await peakMb(await treeOf((await work.pid())!))

    await work.stop({ graceMs: 0 })
    assert.ok(peak > 64 && peak < 200, `${peak} MB`)
  })

  it('leaves no orphan when the node is killed', async () => {
    const pids = await killedNode(stateDir, STUBBORN, (node) => node.kill('SIGKILL'))

    await untilGone(pids)
  })

  it('reaps processes left by a killed launcher and node, but not an unrelated process with the same pid', async () => {
    const work = await shell(newDriver(), STUBBORN)
    const pids = (await firstLine(work)).split(' ').map(Number)
    const [file = ''] = await readdir(join(stateDir, 'pids'))
    const entry = JSON.parse(await readFile(join(stateDir, 'pids', file), 'utf8')) as { launcher: number }
    const innocent = spawn('sleep', ['60'])
    await writeFile(
      join(stateDir, 'pids', 'other.json'),
      JSON.stringify({ launcher: innocent.pid, launcher_start: '1', group: innocent.pid }),
    )

    assert.equal(await newDriver().reap(), 1)

    await untilGone([...pids, entry.launcher])
    assert.equal(innocent.exitCode, null)
    innocent.kill('SIGKILL')
    assert.deepEqual(await readdir(join(stateDir, 'pids')), [])
  })
})

/** Starts a node process that runs the script, ends it, and returns the script's process ids. */
async function killedNode(stateDir: string, script: string, end: (node: ReturnType<typeof spawn>) => void) {
  const program = `
    const { ProcessDriver } = await import(${JSON.stringify(DRIVER)})
    const driver = new ProcessDriver({ stateDir: ${JSON.stringify(stateDir)}, python: async () => 'python3' })
    const work = await driver.start({ name: 'work', command: 'sh', args: ['-c', ${JSON.stringify(script)}] })
    work.stdout.pipe(process.stdout)`
  const node = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const line = await firstOf(node.stdout)
  end(node)
  await once(node, 'exit')
  return line.split(' ').map(Number)
}

async function untilGone(pids: number[]): Promise<void> {
  await until(() => !pids.some(identify))
}

const firstLine = (work: ManagedProcess) => firstOf(work.stdout)

async function firstOf(stream: NodeJS.ReadableStream): Promise<string> {
  const [line] = (await once(createInterface({ input: stream }), 'line')) as [string]
  return line
}

async function linesOf(work: ManagedProcess): Promise<string[]> {
  const lines = []
  for await (const line of createInterface({ input: work.stdout })) lines.push(line)
  return lines
}
