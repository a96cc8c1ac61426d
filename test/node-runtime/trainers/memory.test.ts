import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { loadCatalog } from '../../../platform/catalog.ts'
import { readDataset } from '../../../platform/datasets/reader.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { pythonOf, runTrainer } from '../../support/servers/nodes/trainer.ts'

const ROWS = 3_000_000
/**
 * Writes the same text into all rows, which takes almost no space in a file: as a Parquet file, and as a zipped saved
 * dataset.
 */
const MAKE = `
import sys, zipfile
import numpy as np, pyarrow as pa, pyarrow.ipc as ipc, pyarrow.parquet as pq
folder, rows = sys.argv[1], int(sys.argv[2])
one = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array(['x' * 200]))
table = pa.table({'text': one, 'label': pa.array(np.arange(rows) % 2)})
pq.write_table(table.set_column(0, 'text', pa.chunked_array([one.cast(pa.large_string())])), folder + '/bomb.parquet', compression='zstd')
with ipc.new_stream(folder + '/data.arrow', table.schema) as out:
    out.write_table(table)
with zipfile.ZipFile(folder + '/bomb.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.write(folder + '/data.arrow', 'train/data-00000-of-00001.arrow')
    archive.write(folder + '/bomb.parquet', 'other/part.parquet')
`

describe('a dataset that is small on disk and large in memory', function () {
  this.timeout(120_000)
  const folder = temporaryFolder()
  after(() => folder[Symbol.dispose]())
  before(async () => {
    execFileSync(await pythonOf('tabular'), ['-c', MAKE, folder.path, String(ROWS)])
  })

  for (const [format, file] of [
    ['parquet', 'bomb.parquet'],
    ['hf_dataset', 'bomb.zip'],
  ] as const) {
    it(`is measured by its size in memory at ingestion (${format})`, async () => {
      const path = join(folder.path, file)
      const { decoded_bytes } = await readDataset({ path, format })

      const { size } = await stat(path)
      assert.ok(decoded_bytes > ROWS * 200, String(decoded_bytes))
      assert.ok(decoded_bytes > 100 * size, `${decoded_bytes} of ${size}`)
      const estimate = loadCatalog().model('text-classification')?.estimateMemoryMb(decoded_bytes) ?? 0
      assert.ok(estimate > 3_000, `${estimate} MB`)
    })

    it(`is rejected by its trainer, with the figures, before it exceeds the trainer's memory (${format})`, async () => {
      const run = await runTrainer({
        folder: join(folder.path, format),
        model: 'text-classification',
        file: join(folder.path, file),
        format,
        memoryMb: 400,
      })

      assert.equal(run.code, 64)
      assert.equal(run.error?.code, 'memory_exceeded')
      assert.match(run.error.message, /needs at least \d+ MB for its dataset alone: its limit is 400 MB/)
    })
  }
})
