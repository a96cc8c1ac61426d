import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import addFormats from 'ajv-formats'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { OPERATION_ACTIONS } from '../../../api/actions/operation-actions.ts'
import type { AnyRoute } from '../../../api/http/route.ts'
import { operationTools } from '../../../api/manifest/operation-tools.ts'
import { BUILT_IN_TOOLS } from '../../../api/mcp/tools/index.ts'
import { createDataset } from '../../../api/routes/builder/datasets/create-dataset.ts'
import { registerForInference } from '../../../api/routes/builder/endpoints/register-for-inference.ts'
import { createTrainingRun } from '../../../api/routes/builder/training-runs/create-training-run.ts'
import { canonicalJson } from '../../../domain/canonical-json.ts'
import type { ToolManifest } from '../../../schemas/tool.ts'

// Clients compile schemas in strict mode, where an unknown keyword is an error.
const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false })
addFormats.default(ajv)

const manifests = operationTools().map(({ text }) => JSON.parse(String(text)) as ToolManifest)

describe('the tools of operations (4.6)', () => {
  for (const manifest of manifests) {
    it(`${manifest.name} has schemas that strict validators accept, and examples that match them`, () => {
      const [input, output] = [ajv.compile(manifest.inputSchema), ajv.compile(manifest.outputSchema ?? {})]

      assert.ok(manifest.examples.length >= 2)
      for (const example of manifest.examples) {
        assert.ok(input(example.input), JSON.stringify(input.errors))
        assert.ok(output(example.output), JSON.stringify(output.errors))
      }
    })
  }

  it("accept every field of their route's body, including when called through the MCP server", () => {
    const bodyOf = ({ body }: AnyRoute) => (body as unknown as { properties: object }).properties
    const argumentsOf = ({ inputSchema }: { inputSchema: object }) =>
      (inputSchema as { properties: object }).properties
    const fields = (properties: object) => Object.keys(properties).toSorted()
    // `model` is an alias of `model_config_id`.
    const bodies = OPERATION_ACTIONS.map((action) => [
      action.slug,
      fields(bodyOf(action.operation)).filter((name) => name !== 'model'),
    ])
    const inputs = manifests.map((manifest) => [manifest.name, fields(argumentsOf(manifest))])
    assert.deepEqual(inputs, bodies)

    const tool = (name: string) =>
      new Set(fields(argumentsOf(BUILT_IN_TOOLS.find((one) => one.name === name)!)))
    const built: [string, AnyRoute, Record<string, string | null>][] = [
      ['create_training_run', createTrainingRun, { model: null }],
      ['create_dataset', createDataset, { dataset_name: 'name' }],
      ['register_for_inference', registerForInference, {}],
    ]
    for (const [name, route, renamed] of built) {
      const expected = fields(bodyOf(route)).map((field) => (field in renamed ? renamed[field] : field))
      const missing = expected.filter((field) => field && !tool(name).has(field))
      assert.deepEqual(missing, [], name)
    }
  })

  it('get a new version when their schemas change', () => {
    const digests = manifests.map(({ name, version, inputSchema, outputSchema }) => {
      const text = canonicalJson([inputSchema, outputSchema])
      return [name, version, hash('sha256', text).slice(0, 12)]
    })

    // A new digest here requires a new version in api/manifest/operation-tools.ts.
    assert.deepEqual(digests, [
      ['training.merge', '1.1.0', 'b2e9b515ccb7'],
      ['training.retrain_on', '1.1.0', 'ba7bdc301dc7'],
    ])
  })
})
