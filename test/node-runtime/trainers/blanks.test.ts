import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pythonProcessEnv } from '../../../node-runtime/environments/python-env.ts'
import { probeTables } from '../../support/builders/probes/table-probe.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { pythonOf } from '../../support/servers/nodes/trainer.ts'

const TRAINERS = join(import.meta.dirname, '..', '..', '..', 'node-runtime', 'trainers')

/** Runs a program with the modules of the trainers, and returns its output. */
const run = async (program: string, ...args: string[]): Promise<string> =>
  execFileSync(await pythonOf('tabular'), ['-c', program, ...args], {
    env: pythonProcessEnv({ PYTHONPATH: TRAINERS }),
  }).toString()

describe('spaces around CSV cells', function () {
  this.timeout(60_000)

  it('are not part of texts, missing value markers, classes or dates', async () => {
    const rows = [
      '39, State-gov, <=50K',
      '50, ?,>50K ',
      '38, Private , >50K',
      '20,  , <=50K',
      '21,Private,NA ',
    ]
    const text = ['age, workclass, income', ...rows].join('\n')
    const hyperparameters = { text_column: 'workclass', target_column: 'income' }

    const [table, dates, texts] = await probeTables([
      { text },
      { text: 'd, t\n 2024-01-31, 2024-01-31 10:00\n2024-02-01,2024-02-01 11:30 ' },
      { text, hyperparameters },
    ])

    assert.deepEqual(table?.columns, {
      age: ['39', '50', '38', '20', '21'],
      workclass: ['State-gov', 'None', 'Private', 'None', 'Private'],
      income: ['<=50K', '>50K', '>50K', '<=50K', 'None'],
    })
    assert.deepEqual(dates?.columns, {
      d: ['2024-01-31 00:00:00', '2024-02-01 00:00:00'],
      t: ['2024-01-31 10:00:00', '2024-02-01 11:30:00'],
    })
    assert.deepEqual(texts?.classes, ['<=50K', '>50K'])
  })

  it('do not matter to a served model, unless two of its categories differ only by them', async () => {
    const program = `
import json, sys
import numpy as np
from hearth_trainers.tabular.features import Feature, RowEncoder
def codes(categories, values):
    encoder, out = RowEncoder([Feature("city", "category", False, categories)]), np.zeros(1)
    return [encoder.encode({"city": value}, out) or (None if np.isnan(out[0]) else int(out[0])) for value in values]
print(json.dumps([codes(("Bern", "Zug"), ["Zug", " Zug", "Zug ", "Uri", " "]), codes((" Bern", " Zug"), ["Zug", " Zug", "Zug "]), codes(("Zug", " Zug"), ["Zug", " Zug", "Zug "])]))`

    const found = await run(program)

    assert.deepEqual(JSON.parse(found), [
      [1, 1, 1, null, null],
      [1, 1, 1],
      [0, 1, 0],
    ])
  })

  it('are kept in the text that language models learn', async () => {
    using folder = temporaryFolder()
    const program = `
import json, sys
from pathlib import Path
from hearth_trainers.datasets.budget import Budget
from hearth_trainers.llm.rows import _read_csv
path = Path(sys.argv[1]) / "rows.csv"
path.write_text('prompt, completion\\n"Say ""no"", ""yes""", yes\\nx, "a, b"\\n"y"," z "\\n')
print(json.dumps(_read_csv(path, Budget(None))))`
    const found = await run(program, folder.path)

    assert.deepEqual(JSON.parse(found), [
      { prompt: 'Say "no", "yes"', completion: ' yes' },
      { prompt: 'x', completion: 'a, b' },
      { prompt: 'y', completion: ' z ' },
    ])
  })

  it('are not part of the column names that a run specifies', async () => {
    using folder = temporaryFolder()
    const file = join(folder.path, 'job.json')
    const job = (format: string) => ({
      trainer: 't',
      dataset: { format, paths: ['data'] },
      output_dir: 'o',
      checkpoint_dir: 'c',
      hyperparameters: { target_column: ' city ', ignore_columns: [' a', 'b'], note: ' x' },
    })
    const read = async (format: string) => {
      writeFileSync(file, JSON.stringify(job(format)))
      const program = `import json, sys\nfrom pathlib import Path\nfrom hearth_trainers.job import read_job\nprint(json.dumps(read_job(Path(sys.argv[1])).hyperparameters))`
      return JSON.parse(await run(program, file)) as unknown
    }

    assert.deepEqual(await read('csv'), { target_column: 'city', ignore_columns: ['a', 'b'], note: ' x' })
    assert.deepEqual(await read('jsonl'), job('jsonl').hyperparameters)
  })
})

describe("accents in a table model's text", () => {
  it('may be encoded either way, in training and in requests to the model', async () => {
    const program = `
import json
import numpy as np
import pyarrow as pa
from hearth_trainers.tabular.features import Feature, RowEncoder
from hearth_trainers.tabular.fitting import encode_table, fit_features
one, two = "Z\u00fcrich", "Zu\u0308rich"
def codes(texts, features=None):
    table = pa.table({"city": pa.chunked_array([pa.array(texts)])})
    features = features or fit_features(table, "", [])[0]
    encoder, out = RowEncoder(features), np.zeros(1)
    served = [encoder.encode({"city": text}, out) or float(out[0]) for text in texts if text]
    learned = [float(code) for text, code in zip(texts, encode_table(table, features)[:, 0]) if text]
    return [list(features[0].categories), learned, served]
old = lambda *texts: [Feature("city", "category", False, texts)]
print(json.dumps([codes([two, "Bern", one, None, "Bern"]), codes([one, two], old(two)), codes([one, two], old(one, two))]))`

    const found = await run(program)

    assert.deepEqual(JSON.parse(found), [
      [
        ['Bern', 'Z\u00fcrich'],
        [1, 0, 1, 0],
        [1, 0, 1, 0],
      ],
      [['Zu\u0308rich'], [0, 0], [0, 0]],
      [
        ['Z\u00fcrich', 'Zu\u0308rich'],
        [0, 1],
        [0, 1],
      ],
    ])
  })
})
