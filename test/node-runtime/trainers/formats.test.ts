import assert from 'node:assert/strict'
import { join } from 'node:path'
import { runProgram } from '../../../platform/processes/run-program.ts'
import { houseRows, writeJsonl } from '../../support/builders/sample-data.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { pythonOf, runTrainer } from '../../support/servers/nodes/trainer.ts'

/** Writes the rows of data.jsonl as Parquet and in every layout of a saved Hugging Face dataset. */
const CONVERT = `
import json, os, shutil, sys, tarfile
import pyarrow as pa, pyarrow.json as pj, pyarrow.parquet as pq, pyarrow.ipc as ipc
os.chdir(sys.argv[1])
table = pj.read_json('data.jsonl')
pq.write_table(table, 'data.parquet')
towns = ['Rome', 'Oslo', 'Lima']
codes = pa.array([towns.index(t) for t in table.column('town').to_pylist()])
features = {'town': {'_type': 'ClassLabel', 'names': towns}}
labelled = table.set_column(table.column_names.index('town'), 'town', codes)
labelled = labelled.replace_schema_metadata({'huggingface': json.dumps({'info': {'features': features}})})
for split, part in (('train', labelled), ('test', labelled.slice(0, 20))):
    os.makedirs(f'saved/{split}')
    with ipc.new_stream(f'saved/{split}/data-00000-of-00001.arrow', part.schema) as out:
        out.write_table(part)
shutil.make_archive('zipped', 'zip', 'saved')
with tarfile.open('packed.tar.gz', 'w:gz') as out:
    out.add('saved', 'my-dataset')
os.makedirs('parts/data')
pq.write_table(table.slice(0, 100), 'parts/data/train-00000-of-00002.parquet')
pq.write_table(table.slice(100), 'parts/data/train-00001-of-00002.parquet')
shutil.make_archive('parts', 'zip', 'parts')
`

describe('dataset formats', () => {
  it('are all read as the same table', async () => {
    using folder = temporaryFolder()
    await writeJsonl(folder.path, houseRows(200))
    await runProgram(await pythonOf('tabular'), ['-c', CONVERT, folder.path])
    const files: [format: string, name: string][] = [
      ['jsonl', 'data.jsonl'],
      ['parquet', 'data.parquet'],
      ['hf_dataset', 'saved'],
      ['hf_dataset', 'zipped.zip'],
      ['hf_dataset', 'packed.tar.gz'],
      ['hf_dataset', 'parts.zip'],
    ]

    const outcomes = []
    for (const [format, name] of files) {
      const job = { folder: folder.path, model: 'tabular-regression', format, file: join(folder.path, name) }
      const { code, error, result } = await runTrainer({ ...job, hyperparameters: { epochs: 5 } })
      assert.equal(code, 0, `${name}: ${error?.message}`)
      const { warnings, ...metrics } = result.metrics
      const unused = {
        message: 'The dataset has the splits test, train; training uses only train.',
        count: 1,
      }
      const hasSplits = !name.startsWith('data') && name !== 'parts.zip'
      assert.deepEqual(warnings, hasSplits ? [unused] : undefined)
      outcomes.push({ metrics, example: result.example_input, output: result.example_output })
    }

    for (const outcome of outcomes) assert.deepEqual(outcome, outcomes[0])
  })
})
