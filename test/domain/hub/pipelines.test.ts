import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { PIPELINES } from '../../../domain/hub/pipelines.ts'
import { IMPORT_TASK_TYPES } from '../../../domain/models/import.ts'
import { loadCatalog } from '../../../platform/catalog.ts'

describe('pipelines known to hub imports', () => {
  it("match the generative server's pipelines and their task types", () => {
    const source = readFileSync('node-runtime/servers/generative/pipelines.py', 'utf8')
    const lines = [...source.matchAll(/^ {4}"(\w+Pipeline)": (.*),$/gm)]
    const listed = lines.map(([, name = '', served = '']) => [
      name,
      served.startsWith('image_tasks(')
        ? ['text-to-image', 'image-to-image']
        : [...served.matchAll(/"([\w-]+)": Served/g)].map(([, task]) => task),
    ])

    assert.ok(listed.length > 0)
    assert.deepEqual(PIPELINES, Object.fromEntries(listed))
  })

  it('match the task types of the catalog', () => {
    const served = new Set(loadCatalog().profiles.flatMap(({ task_types }) => task_types))

    assert.deepEqual([...IMPORT_TASK_TYPES].toSorted(), [...served].toSorted())
  })
})
