import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { houseRows, writeCsv } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { realPython } from '../../support/servers/nodes/python.ts'
import { runTrainer } from '../../support/servers/nodes/trainer.ts'
import { mountSmallDisk, type SmallDisk } from '../../support/servers/small-disk.ts'
import { skipBecause } from '../../support/skip.ts'

const TRAINERS = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'trainers')
const FULL = /^The disk of this node is full, so the run could not write its files\./

/** Prints the code with which each error ends a trainer, or None if the disk is not to blame. */
const ERRORS = `
import sys
from pathlib import Path
from hearth_trainers.errors import JobError, full_disk
folder = Path(sys.argv[1])
def caused(outer, inner):
    outer.__cause__ = inner
    return outer
def written():
    with open(folder / "file", "wb", buffering=0) as file:
        for _ in range(8): file.write(bytes(1 << 20))
try: written()
except OSError as error: real = error
for error, where in (
    (real, None),
    (caused(JobError("The dataset cannot be read."), caused(ValueError("rows"), real)), None),
    (RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed"), folder),
    (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), None),
    (JobError("Column 'x' has no value."), None),
    (KeyError("x"), Path("/")),
    (PermissionError(13, "denied"), None),
):
    fault = full_disk(error, where)
    print(fault and fault.code)`

describe('a trainer on a full disk', function () {
  this.timeout(120_000)
  let disk: SmallDisk
  before(function () {
    const mounted = mountSmallDisk(64)
    if ('missing' in mounted) return skipBecause(this, mounted.missing)
    disk = mounted
  })
  after(() => disk?.[Symbol.dispose]())
  beforeEach(() => disk.empty())

  it("ends with a retryable error that names the node's disk", async () => {
    using folder = temporaryFolder()
    const { code, error } = await runTrainer({
      folder: disk.path,
      model: 'tabular-regression',
      file: await writeCsv(folder.path, houseRows(200)),
      hyperparameters: { epochs: 5_000, checkpoint_every_epochs: 50 },
      onEvent: ({ event }) => {
        if (event === 'checkpoint') disk.fill()
      },
    })

    assert.deepEqual([code, error?.code], [1, 'disk_full'])
    assert.match(error?.message ?? '', FULL)
  })

  it("recognizes a full disk by errno, by message, or by the disk itself, and doesn't mistake other faults for it", async () => {
    disk.fill(1 << 20)
    const { stdout } = await promisify(execFile)(realPython(), ['-c', ERRORS, disk.path], {
      env: { PYTHONPATH: TRAINERS },
    })

    assert.deepEqual(stdout.trim().split('\n'), [
      ...Array.from({ length: 4 }, () => 'disk_full'),
      ...Array.from({ length: 3 }, () => 'None'),
    ])
  })
})
