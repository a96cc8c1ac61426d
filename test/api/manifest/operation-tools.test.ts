import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import addFormats from 'ajv-formats'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { operationTools } from '../../../api/manifest/operation-tools.ts'
import { canonicalJson } from '../../../domain/canonical-json.ts'
import type { ToolManifest } from '../../../schemas/tool.ts'

// Clients compile schemas strictly, where an unknown keyword is an error.
const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false })
addFormats.default(ajv)

const manifests = operationTools().map(({ text }) => JSON.parse(String(text)) as ToolManifest)

describe('the tools of operations (4.6)', () => {
  for (const manifest of manifests) {
    it(`${manifest.name} has schemas that strict validators accept, and examples that fit them`, () => {
      const [input, output] = [ajv.compile(manifest.inputSchema), ajv.compile(manifest.outputSchema ?? {})]

      assert.ok(manifest.examples.length >= 2)
      for (const example of manifest.examples) {
        assert.ok(input(example.input), JSON.stringify(input.errors))
        assert.ok(output(example.output), JSON.stringify(output.errors))
      }
    })
  }

  it('get another version when their schemas change', () => {
    const digests = manifests.map(({ name, version, inputSchema, outputSchema }) => {
      const text = canonicalJson([inputSchema, outputSchema])
      return [name, version, hash('sha256', text).slice(0, 12)]
    })

    // A new digest here needs a new version in api/manifest/operation-tools.ts.
    assert.deepEqual(digests, [
      ['training.merge', '1.0.0', '8fe4ab559237'],
      ['training.retrain_on', '1.0.0', '57e7b801a3d9'],
    ])
  })
})
