import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DiskHealth, MIN_FREE_BYTES } from '../../../node-runtime/hardware/disk-health.ts'
import { createLogger } from '../../../platform/log.ts'
import { mountSmallDisk, type SmallDisk } from '../../support/servers/small-disk.ts'
import { skipBecause } from '../../support/skip.ts'

const MB = 1024 * 1024
const NEVER = new AbortController().signal

describe('DiskHealth', function () {
  this.timeout(60_000)
  let disk: SmallDisk
  let changes: number
  let health: DiskHealth
  before(function () {
    const mounted = mountSmallDisk(256)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    disk = mounted
  })
  after(() => disk?.[Symbol.dispose]())
  beforeEach(() => {
    disk.empty()
    changes = 0
    health = new DiskHealth({
      folders: [disk.path, join(disk.path, 'not-there-yet')],
      log: createLogger('test', 'silent'),
      onChange: () => (changes += 1),
      admissionMs: 100,
    })
  })
  afterEach(() => health[Symbol.dispose]())
  const fault = () => health.fault

  it('reports a full disk with its free megabytes, and reports when it has space again', async () => {
    await health.check()
    assert.equal(fault(), undefined)

    disk.fill(5 * MB)
    await health.check()
    assert.equal(fault()?.free_mb, 5)
    const since = fault()?.since

    // A little free space is not enough.
    disk.fill(MIN_FREE_BYTES + 8 * MB)
    await health.check()
    assert.equal(fault()?.since, since)

    disk.empty()
    await health.check()
    assert.equal(fault(), undefined)
    assert.equal(changes, 2)
  })

  it('admits no run while the disk is full, and admits a waiting run once there is space', async () => {
    disk.fill()
    assert.equal(await health.admit('a', NEVER), false)

    const patient = new DiskHealth({
      folders: [disk.path],
      log: createLogger('test', 'silent'),
      admissionMs: 30_000,
    })
    const admitted = patient.admit('a', NEVER)
    disk.empty()
    assert.equal(await admitted, true)
  })

  it('requires more free space for the run that filled the disk than for other runs', async () => {
    disk.fill(100 * MB)
    await health.filled('large')

    assert.equal(await health.admit('large', NEVER), false)
    assert.equal(await health.admit('small', NEVER), true)
    assert.equal(health.fault, undefined)
    disk.fill(200 * MB)
    assert.equal(await health.admit('large', NEVER), true)
  })

  it('requires no extra space for a run that ended because other files filled the disk', async () => {
    disk.fill()
    await health.filled('small')
    disk.fill(150 * MB)
    assert.equal(await health.admit('small', NEVER), true)
  })

  it('stops waiting when the run is cancelled', async () => {
    disk.fill()
    const cancel = new AbortController()
    const waiting = new DiskHealth({ folders: [disk.path], log: createLogger('test', 'silent') }).admit(
      'a',
      cancel.signal,
    )
    cancel.abort()
    await assert.rejects(waiting, { name: 'AbortError' })
  })
})
