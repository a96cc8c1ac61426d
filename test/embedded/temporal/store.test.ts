import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { createOutput } from '../../../embedded/output.ts'
import { superviseChild } from '../../../embedded/processes/child.ts'
import { readIdentity } from '../../../embedded/processes/pid-files.ts'
import { findTemporalCli, isRecent } from '../../../embedded/temporal/cli.ts'
import { upgradeStore } from '../../../embedded/temporal/store.ts'
import { readConfig } from '../../../platform/config.ts'
import { until } from '../../support/assertions/until.ts'
import { dataDirectory, processesOn, startSupervisor } from '../../support/servers/platform.ts'
import { RawTemporal } from '../../support/servers/raw-temporal.ts'

/**
 * Written by server 1.29.1 without fairness (Hearth 0.12.0): 44 activities on `train.cpu`, 10 workflows on `waiting`.
 */
const OLD_STORE = join(import.meta.dirname, '..', '..', 'fixtures', 'temporal-1.29.db.gz')
const RUNS = [
  ...Array.from({ length: 40 }, (_, i) => `run-a-${i}`),
  ...Array.from({ length: 3 }, (_, i) => `run-b-${i}`),
  'run-first',
]

describe('embedded Temporal server store', () => {
  let folder: string
  let file: string
  let cli: string

  before(async () => {
    cli = process.env.HEARTH_TEST_TEMPORAL ?? (await findTemporalCli(readConfig().HEARTH_CACHE_DIR, () => {}))
  })
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'hearth-temporal-'))
    file = join(folder, 'temporal.db')
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  const upgrade = (lines: string[]) =>
    upgradeStore(cli, file, {
      say: (line) => lines.push(line),
      start: (spec) =>
        superviseChild(spec, {
          runDir: join(folder, 'run'),
          output: createOutput(join(folder, 'logs'), { quiet: true }),
        }),
    })

  it('dispatches every waiting task of an older server exactly once', async () => {
    writeFileSync(file, gunzipSync(readFileSync(OLD_STORE)))
    const { partitions } = await upgrade([])
    assert.equal(partitions, 4)

    await using temporal = await RawTemporal.start(cli, file, folder, partitions)
    const runs = await takeAll(RUNS.length, () => temporal.takeActivity('train.cpu'))
    assert.deepEqual(runs.toSorted(), RUNS.toSorted())
    const workflows = await takeAll(10, () => temporal.takeWorkflow('waiting'))
    assert.deepEqual(
      workflows.toSorted(),
      Array.from({ length: 10 }, (_, i) => `wf-${i}`),
    )
    // The older schema lacks a table that schedules need, so this would fail on it.
    await temporal.createSchedule('housekeeping')
  })

  it('is left unchanged when the same server version wrote it', async () => {
    const lines: string[] = []
    assert.equal((await upgrade(lines)).partitions, 1)
    assert.ok(!existsSync(file))
    await (await RawTemporal.start(cli, file, folder))[Symbol.asyncDispose]()

    await upgrade(lines)
    assert.deepEqual(lines, [])
  })

  it('is left unchanged when it cannot be read', async () => {
    writeFileSync(file, 'not a database, though as long as the header of one would be'.repeat(4))
    await assert.rejects(upgrade([]), /The file is unchanged/)
    assert.match(readFileSync(file, 'utf8'), /^not a database/)
    assert.ok(!existsSync(`${file}.next`) && !existsSync(`${file}.server`))
  })

  it('is rejected and left unchanged when a newer server wrote it', async () => {
    const own = 'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)'
    const program = join(folder, 'temporal')
    writeFileSync(program, `#!/bin/sh\necho '${own}'\n`, { mode: 0o755 })
    const upgradeBy = () =>
      upgradeStore(program, file, { say: () => {}, start: () => assert.fail('a server was started') })
    for (const newer of [
      'temporal version 1.9.0 (Server 1.32.1, UI 2.54.1)',
      'temporal version 1.11.0 (Server 1.40.0-rc.1, UI 2.60.0)',
      'temporal version 0.0.0-DEV (Server 2.0.0, UI 3.0.0)',
    ]) {
      writeFileSync(file, 'rows of a newer server')
      const marker = JSON.stringify({ version: newer, partitions: 1 })
      writeFileSync(`${file}.server`, marker)

      await assert.rejects(upgradeBy(), (err: Error) => {
        assert.ok(err.message.includes(newer) && err.message.includes(own), err.message)
        assert.match(
          err.message,
          /Put the newer `temporal` on PATH, .* move that file and temporal\.db\.server away/,
        )
        return true
      })
      assert.equal(readFileSync(file, 'utf8'), 'rows of a newer server')
      assert.equal(readFileSync(`${file}.server`, 'utf8'), marker)
    }
    for (const older of ['temporal version 1.9.1 (Server 1.29.1, UI 1.0.0)', 'temporal version 2.0.0']) {
      writeFileSync(`${file}.server`, JSON.stringify({ version: older, partitions: 1 }))
      await assert.rejects(upgradeBy(), /a server was started/)
    }
  })

  for (const signal of ['SIGTERM', 'SIGKILL'] as const)
    it(`is left unchanged and unused when ${signal} stops the supervisor during the upgrade`, async () => {
      using data = dataDirectory()
      const store = join(data.path, 'temporal', 'temporal.db')
      const content = gunzipSync(readFileSync(OLD_STORE))
      mkdirSync(dirname(store))
      writeFileSync(store, content)
      const supervisor = startSupervisor(data.path, [])
      const exited = once(supervisor, 'exit')
      const pidFile = join(data.path, 'run', 'temporal-schema.pid')
      const servers = () => processesOn(data.path).filter(({ command }) => command.includes(data.path))
      const isRebuilding = () => servers().some(({ command }) => command.includes('.next'))
      await until(isRebuilding, 120_000)
      if (signal === 'SIGKILL') await until(() => readIdentity(pidFile) !== undefined, 5_000)

      supervisor.kill(signal)
      await exited
      // The system needs a moment to end the children of a killed process, such as initdb's.
      await until(() => servers().length === 0, 5_000)
      assert.deepEqual(servers(), [])
      assert.ok(readFileSync(store).equals(content))
    })
})

describe('embedded Temporal server', () => {
  it("interleaves another account's work and a priority 1 run with one account's flood", async () => {
    const cli =
      process.env.HEARTH_TEST_TEMPORAL ?? (await findTemporalCli(readConfig().HEARTH_CACHE_DIR, () => {}))
    const folder = mkdtempSync(join(tmpdir(), 'hearth-temporal-'))
    try {
      await using temporal = await RawTemporal.start(cli, join(folder, 'temporal.db'), folder)
      for (let i = 0; i < 60; i++)
        await temporal.enqueueActivity({ id: `flood-${i}`, account: 'a', priority: 3 }, 'train.cpu')
      for (const id of ['other-1', 'other-2'])
        await temporal.enqueueActivity({ id, account: 'b', priority: 3 }, 'train.cpu')
      await temporal.enqueueActivity({ id: 'urgent', account: 'a', priority: 1 }, 'train.cpu')

      const order = await takeAll(12, () => temporal.takeActivity('train.cpu'))
      for (const id of ['urgent', 'other-1', 'other-2'])
        assert.ok(order.includes(id), `${id} is not among the first: ${order.join(' ')}`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('Temporal CLI on PATH', () => {
  it('is used when its server version is 1.32 or newer', () => {
    for (const version of [
      'temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)',
      'temporal version 1.10.0 (Server 1.40.2, UI 2.60.0)',
      'temporal version 2.0.0 (Server 2.0.0-rc.1, UI 3.0.0)',
    ])
      assert.ok(isRecent(version), version)
    for (const version of [
      'temporal version 0.0.0-DEV (Server 1.29.1, UI 2.42.1)',
      'temporal version 1.6.2 (Server 1.31.9, UI 2.48.0)',
      '',
      'tctl version 1.18.4',
    ])
      assert.ok(!isRecent(version), version)
  })
})

async function takeAll(count: number, take: () => Promise<string | undefined>): Promise<string[]> {
  const taken: string[] = []
  for (let i = 0; i < count; i++) {
    const id = await take()
    if (id === undefined) break
    taken.push(id)
  }
  return taken
}
