import assert from 'node:assert/strict'
import { readdir, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AdminClient } from '../../../cli/admin-client.ts'
import { importModel } from '../../../cli/commands/models.ts'
import { writeTinyGguf } from '../../../embedded/demo/tiny-gguf.ts'
import {
  judgeLoadFailure,
  UnusableWeightsError,
} from '../../../node-runtime/servers/llama/unusable-weights.ts'
import { makeTinyLlm, requireLlm } from '../../support/builders/models/tiny-llm.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { OPERATIONS_KEY, startApi } from '../../support/servers/api.ts'
import { addModel, startNode } from '../../support/servers/nodes/node.ts'
import { LlmWorld, requireLlamaCpp } from '../../support/servers/worlds/llm-world.ts'

const ENDLESS =
  '{%for a in range(9999)%}{%for b in range(9999)%}{%for c in range(9999)%}{%endfor%}{%endfor%}{%endfor%}'

async function spoilGguf(
  path: string,
  how: 'cut' | 'header' | 'counts' | 'architecture' | 'template',
): Promise<void> {
  if (how === 'cut') return truncate(path, Math.floor((await stat(path)).size / 2))
  const bytes = await readFile(path)
  if (how === 'header') bytes.fill(0xff, 4, 8)
  // llama.cpp's binding would never stop reading.
  else if (how === 'counts') bytes.writeBigUInt64LE(2n ** 60n, 8)
  else if (how === 'template') {
    // The template follows its length field. We overwrite it from its start, so that the endless loop comes first.
    const at = bytes.indexOf('tokenizer.chat_template') + 'tokenizer.chat_template'.length + 4
    const length = Number(bytes.readBigUInt64LE(at))
    bytes.write(ENDLESS.padEnd(length), at + 8)
  } else bytes.write('lemur', bytes.indexOf('llama'))
  await writeFile(path, bytes)
}

async function spoilFolder(path: string, how: 'shape' | 'field' | 'template'): Promise<void> {
  if (how === 'template') return writeFile(join(path, 'chat_template.jinja'), '{% if messages %}')
  const config = join(path, 'config.json')
  const content = JSON.parse(await readFile(config, 'utf8')) as { intermediate_size: number }
  const spoiled =
    how === 'shape' ? { intermediate_size: content.intermediate_size + 8 } : { hidden_size: 'wide' }
  await writeFile(config, JSON.stringify({ ...content, ...spoiled }))
}

for (const [server, require, make, cases] of [
  [
    'llama.cpp',
    requireLlamaCpp,
    writeTinyGguf,
    [
      ['cut.gguf', (path: string) => spoilGguf(path, 'cut')],
      ['header.gguf', (path: string) => spoilGguf(path, 'header')],
      ['counts.gguf', (path: string) => spoilGguf(path, 'counts')],
      ['lemur.gguf', (path: string) => spoilGguf(path, 'architecture')],
      ['endless.gguf', (path: string) => spoilGguf(path, 'template')],
    ],
  ],
  [
    'PyTorch',
    requireLlm,
    makeTinyLlm,
    [
      ['shape', (path: string) => spoilFolder(path, 'shape')],
      ['field', (path: string) => spoilFolder(path, 'field')],
      ['template', (path: string) => spoilFolder(path, 'template')],
    ],
  ],
] as const) {
  describe(`weights that ${server} cannot use`, function () {
    this.timeout(600_000)
    let world: LlmWorld
    before(require)
    before(async () => {
      world = await LlmWorld.start()
    })
    after(() => world?.[Symbol.asyncDispose]())

    for (const [file, spoil] of cases) {
      it(`are reported as permanently unusable: ${file}`, async () => {
        const path = world.pathOf(file)
        await make(path)
        const admin = new AdminClient(world.api.baseUrl, OPERATIONS_KEY)
        // The import checks the file in its first call and reads it again to send it. We corrupt it in between so that
        // the node receives a file that an import would reject, as can happen with uploads.
        const client: Pick<AdminClient, 'call'> = {
          async call<T>(...call: Parameters<AdminClient['call']>): Promise<T> {
            const answer = await admin.call<T>(...call)
            if (call[1] === '/model-imports') await spoil(path)
            return answer
          },
        }
        const { accountId } = world.caller
        const name = `bad-${file.replace('.', '-')}`
        const model = await importModel(client, { name, path, task: 'chat', accountId })
        // The placement of a waiting request makes the same call.
        await assert.rejects(
          world.node.parts.models.load(model.model_key),
          (err: Error & { code?: string }) =>
            err.code === 'unusable' && /weights cannot be used|chat template/.test(err.message),
        )

        const reported = world.node.parts.models
          .report()
          .find(({ model_key }) => model_key === model.model_key)
        assert.equal(reported?.unusable, true)
        assert.doesNotMatch(reported.error ?? '', /\/tmp\//)
      })
    }
  })
}

describe('a failed load', () => {
  it('does not blame the weights for faults of the machine or for unknown faults', async () => {
    const isBlamed = async (message: string, ...written: string[]) =>
      (await judgeLoadFailure(new Error(message), written)) instanceof UnusableWeightsError
    const failed = 'Failed to load model'
    const cut =
      "error loading model: tensor 'output.weight' data is not within the file bounds, model is corrupted or incomplete"

    assert.ok(!(await isBlamed(failed)))
    assert.ok(!(await isBlamed(failed, 'error loading model: unable to allocate CPU buffer')))
    assert.ok(!(await isBlamed(failed, 'error loading model: mmap failed: Cannot allocate memory')))
    assert.ok(!(await isBlamed(failed, 'error loading model: read error: Input/output error', cut)))
    assert.ok(!(await isBlamed('Array buffer allocation failed')))
    assert.ok(await isBlamed(failed, cut))
    assert.ok(await isBlamed(failed, "error loading model: unknown model architecture: 'lemur'"))
  })

  it("waits for llama.cpp's error line, which follows the failure", async () => {
    const written: string[] = []
    setTimeout(() => written.push("error loading model: missing tensor 'blk.0.attn_norm.weight'"), 200)

    const judged = await judgeLoadFailure(new Error('Failed to load model'), written)

    assert.match((judged as Error).message, /^its weights cannot be used: .*blk\.0\.attn_norm/)
  })

  it('re-downloads weights that the disk corrupted', async () => {
    await using api = await startApi()
    using folder = temporaryFolder()
    const key = await addModel(api, { name: 'spoiled', padding: 'p'.repeat(100) })
    {
      await using before = await startNode(api, { dir: folder.path })
      await before.parts.models.load(key)
    }
    const blobs = join(folder.path, 'weights', 'blobs')
    for (const name of await readdir(blobs)) {
      const { length } = await readFile(join(blobs, name))
      await writeFile(join(blobs, name), JSON.stringify({ unusable: true }).padEnd(length))
    }
    await using node = await startNode(api, { dir: folder.path })

    await node.parts.models.load(key)

    assert.equal(node.parts.models.startState(key), 'resident')
  })
})
