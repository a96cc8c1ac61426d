import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  convertSpecialist,
  convertSpecialists,
  makeTinySpecialist,
  requireSpecialist,
  type TinySpecialist,
  tinySpecialist,
  tinySpecialists,
} from '../../../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../../../support/builders/temporary-folder.ts'
import {
  probeSpecialists,
  type SpecialistServer,
  startSpecialist,
} from '../../../support/servers/nodes/specialist.ts'

/** `[CLS] letters :` in the tiny vocabulary. */
const PROMPT_TOKENS = 3
const LONG = 'the lazy dog '.repeat(400)

const PROMPTS = { query: 'Letters: ' }
/** All that can be converted. Building them together imports PyTorch once for all of them. */
const MODELS: readonly TinySpecialist[] = [
  {},
  { kind: 'rerank' },
  { dimensions: [16, 32] },
  { prompts: PROMPTS },
  { prompts: PROMPTS, promptExcluded: true },
  { broken: 100 },
]

async function serve(model: TinySpecialist = {}): Promise<SpecialistServer> {
  const folder = await tinySpecialist(model)
  return startSpecialist(folder, await convertSpecialist(folder))
}

const lengthOf = (vector: readonly number[]) => Math.hypot(...vector)

describe('a specialist server', function () {
  this.timeout(600_000)
  before(requireSpecialist)
  before(async () => void (await convertSpecialists(await tinySpecialists(MODELS))))

  it("names the field of an input that it can't use", async () => {
    await using embeddings = await serve()
    await using reranker = await serve({ kind: 'rerank' })
    const wrong = [
      [embeddings, {}, '/text'],
      [embeddings, { text: 5 }, '/text'],
      [embeddings, { text: [] }, '/text'],
      [embeddings, { text: ['a', null] }, '/text/1'],
      [embeddings, { text: 'a', truncate: 'no' }, '/truncate'],
      [embeddings, { text: 'a', dimensions: 8 }, '/dimensions'],
      [embeddings, { text: 'a', dimensions: 0 }, '/dimensions'],
      [embeddings, { text: 'a', prompt_name: 'query' }, '/prompt_name'],
      [embeddings, { text: LONG, truncate: false }, '/text'],
      [embeddings, { text: ['a', LONG], truncate: false }, '/text/1'],
      [embeddings, { text: Array.from({ length: 2_049 }, () => 'a') }, '/text'],
      [reranker, { documents: ['a'] }, '/query'],
      [reranker, { query: 'a', documents: 'b' }, '/documents'],
      [reranker, { query: 'a', documents: [1] }, '/documents/0'],
      [reranker, { query: 'a', documents: ['b'], top_n: 1.5 }, '/top_n'],
      [reranker, { query: 'a', documents: ['b', LONG], truncate: false }, '/documents/1'],
    ] as const
    for (const [server, body, path] of wrong) {
      const answer = await server.ask(body)

      assert.equal(answer.status, 422, JSON.stringify([body, answer.body]).slice(0, 300))
      assert.equal(answer.body.error.path, path)
      assert.ok(answer.body.error.message.length > 10)
    }
    assert.equal((await embeddings.ask('{')).status, 400)
    assert.equal((await embeddings.ask('[]')).status, 422)
    const other = await embeddings.ask({ query: 'a', documents: ['b'] }, 'rerank')
    assert.equal(other.status, 422)
    assert.match(other.body.error.message, /serve embeddings, not rerank/)
  })

  it('accepts texts of any length, and reports truncated ones', async () => {
    await using server = await serve()
    const megabytes = 'a '.repeat(3_000_000)

    const { status, body } = await server.ask({ text: megabytes })
    const spaced = await server.ask({ text: `${' '.repeat(500_000)}Hello` })
    const plain = await server.ask({ text: 'Hello' })

    assert.equal(status, 200)
    assert.equal(body.truncated, true)
    assert.equal(body.usage.prompt_tokens, 128)
    assert.deepEqual(spaced.body, plain.body)
    assert.equal(plain.body.truncated, undefined)
  })

  it('truncates vectors to the lengths that the model declares, and normalizes them again', async () => {
    await using server = await serve({ dimensions: [16, 32] })

    const whole = await server.ask({ text: 'Hello' })
    const cut = await server.ask({ text: 'Hello', dimensions: 16 })
    const other = await server.ask({ text: 'Hello', dimensions: 20 })

    assert.ok(Math.abs(lengthOf(cut.body.embedding) - 1) < 1e-5)
    const scale = lengthOf(whole.body.embedding.slice(0, 16))
    for (const [i, value] of cut.body.embedding.entries())
      assert.ok(Math.abs(value - whole.body.embedding[i] / scale) < 1e-5)
    assert.equal(other.status, 422)
    assert.match(other.body.error.message, /16, 32 or 64/)
    assert.equal((await server.ask({ text: 'Hello', dimensions: 64 })).status, 200)
  })

  it('prepends a prompt to the text, and excludes it from the mean if the model requires that', async () => {
    const prompts = PROMPTS
    const [folder, excluding] = [
      await tinySpecialist({ prompts }),
      await tinySpecialist({ prompts, promptExcluded: true }),
    ]
    const [[whole] = [], [without] = []] = await probeSpecialists([
      { ask: 'embed', folder, texts: ['Letters: fox'] },
      { ask: 'embed', folder: excluding, texts: ['Letters: fox'], skipped: PROMPT_TOKENS },
    ])
    for (const [model, expected] of [
      [{ prompts }, whole],
      [{ prompts, promptExcluded: true }, without],
    ] as const) {
      await using server = await serve(model)

      const { body } = await server.ask({ text: 'fox', prompt_name: 'query' })

      for (const [i, value] of body.embedding.entries())
        assert.ok(Math.abs(value - (expected?.[i] ?? Number.NaN)) < 2e-5, `${i}`)
    }
  })

  it('lists the best documents along with all scores', async () => {
    await using server = await serve({ kind: 'rerank' })
    const documents = ['Paris', 'the lazy dog', 'fox', '0 1 2 3']

    const { body } = await server.ask({ query: 'What is the capital of France?', documents, top_n: 2 })

    assert.equal(body.scores.length, 4)
    assert.deepEqual(
      body.results.map(({ score }: { score: number }) => score),
      body.scores.toSorted((a: number, b: number) => b - a).slice(0, 2),
    )
    for (const { index, score } of body.results) assert.equal(body.scores[index], score)
  })

  it('reports that the model produced no finite numbers', async () => {
    await using server = await serve({ broken: 100 })

    const [{ status, body }, other] = await Promise.all([
      server.ask({ text: ['Hello', LONG] }),
      server.ask({ text: 'Hello' }),
    ])

    assert.equal(status, 500)
    assert.match(body.error.message, /not finite/)
    assert.equal(other.status, 200)
    await assert.rejects(
      serve({ broken: 0 }),
      /its weights cannot be used: it computes numbers that are not finite/,
    )
  })

  it('rejects weights that no node can serve, with the reason', async () => {
    using folder = temporaryFolder()
    await makeTinySpecialist(folder.path)
    await assert.rejects(
      startSpecialist(folder.path),
      /65 its weights cannot be used: its folder has no ONNX/,
    )
    const modules = [{ type: 'sentence_transformers.models.Dense', path: '2_Dense' }]
    await writeFile(join(folder.path, 'modules.json'), JSON.stringify(modules))
    await assert.rejects(startSpecialist(folder.path), /65 .*module Dense/)
    await writeFile(join(folder.path, 'modules.json'), '[')
    await assert.rejects(startSpecialist(folder.path), /65 .*modules\.json is not JSON/)
  })
})
