import assert from 'node:assert/strict'
import {
  ARCHITECTURES,
  convertSpecialists,
  requireSpecialist,
  type TinySpecialist,
  tinySpecialists,
} from '../../../support/builders/models/tiny-specialist.ts'
import {
  type ProbeRequest,
  probeSpecialists,
  type SpecialistServer,
  startSpecialist,
} from '../../../support/servers/nodes/specialist.ts'

const NOISE = 2e-5
const LONG = 'the lazy dog is the capital of France '.repeat(60)
const TEXTS = ['Hello', 'The quick brown fox jumps over the lazy dog.', '', 'x', LONG]
const QUERY = 'What is the capital of France?'
const PAIRS = TEXTS.map((text): [string, string] => [QUERY, text])

const sigmoid = (logit: number) => 1 / (1 + Math.exp(-logit))
function softmax(logits: readonly number[]): number[] {
  const powers = logits.map((logit) => Math.exp(logit - Math.max(...logits)))
  const sum = powers.reduce((total, power) => total + power, 0)
  return powers.map((power) => power / sum)
}

function assertNear(found: readonly number[], expected: readonly number[], what: string): void {
  assert.equal(found.length, expected.length, what)
  const apart = Math.max(...found.map((value, i) => Math.abs(value - (expected[i] ?? Number.NaN))))
  assert.ok(apart < NOISE, `${what}: ${apart}`)
}

/** A model, the call to transformers, and how to compare its server's answer with the result. */
interface Case {
  what: string
  model: TinySpecialist
  probe: Omit<ProbeRequest, 'folder'>
  check: (server: SpecialistServer, expected: number[][]) => Promise<void>
}

async function checkVectors(server: SpecialistServer, expected: number[][]): Promise<void> {
  const { status, body } = await server.ask({ text: TEXTS })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.truncated, true)
  for (const [i, vector] of expected.entries()) assertNear(body.embeddings[i], vector, `text ${i}`)
  const alone = await server.ask({ text: TEXTS[1] }, 'embeddings')
  assertNear(alone.body.embedding, expected[1] ?? [], 'alone')
}

async function checkScores(server: SpecialistServer, expected: number[][]): Promise<void> {
  const { status, body } = await server.ask({ query: QUERY, documents: TEXTS })
  assert.equal(status, 200, JSON.stringify(body))
  assertNear(body.scores, expected.flat().map(sigmoid), 'scores')
}

async function checkClasses(server: SpecialistServer, expected: number[][]): Promise<void> {
  const { body } = await server.ask({ text: TEXTS })
  for (const [i, logits] of expected.entries()) {
    const scores = softmax(logits)
    assertNear(Object.values(body.results[i].scores), scores, `text ${i}`)
    assert.equal(
      body.results[i].label,
      ['negative', 'neutral', 'positive'][scores.indexOf(Math.max(...scores))],
    )
  }
}

async function checkCategories(server: SpecialistServer, expected: number[][]): Promise<void> {
  const { body } = await server.ask({ text: TEXTS }, 'moderation')
  for (const [i, logits] of expected.entries()) {
    const scores = logits.map(sigmoid)
    const { scores: found, categories, flagged } = body.results[i]
    assertNear(Object.values(found), scores, `text ${i}`)
    assert.deepEqual(
      Object.values(categories),
      scores.map((score) => score >= 0.5),
    )
    assert.equal(
      flagged,
      scores.some((score) => score >= 0.5),
    )
  }
}

const HEADS = [
  { kind: 'rerank', probe: { ask: 'classify', texts: PAIRS }, check: checkScores },
  { kind: 'classification', probe: { ask: 'classify', texts: TEXTS }, check: checkClasses },
  { kind: 'moderation', probe: { ask: 'classify', texts: TEXTS }, check: checkCategories },
] as const

/** Every architecture with and without a head, and every head several times. */
const CASES: Case[] = [
  ...ARCHITECTURES.map((architecture): Case => ({
    what: `embeddings from ${architecture}`,
    model: { architecture },
    probe: { ask: 'embed', texts: TEXTS },
    check: checkVectors,
  })),
  ...[...ARCHITECTURES, 'bert' as const].map((architecture, i): Case => {
    const { kind, probe, check } = HEADS[i % HEADS.length] ?? HEADS[0]
    return { what: `${kind} with ${architecture}`, model: { architecture, kind }, probe, check }
  }),
  ...(['cls', 'max'] as const).map((pooling): Case => ({
    what: `embeddings with ${pooling} pooling that are not normalized`,
    model: { pooling, unnormalized: true },
    probe: { ask: 'embed', texts: TEXTS, pooling, normalized: false },
    check: checkVectors,
  })),
  {
    what: 'embeddings from a folder without a sentence-transformers layout',
    model: { plain: true },
    probe: { ask: 'embed', texts: TEXTS },
    check: checkVectors,
  },
  {
    what: 'embeddings from 16-bit weights',
    model: { dtype: 'bfloat16' },
    probe: { ask: 'embed', texts: TEXTS },
    check: checkVectors,
  },
]

describe('a converted specialist', function () {
  this.timeout(1_200_000)
  const made = new Map<Case, { folder: string; converted: string; expected: number[][] }>()
  before(requireSpecialist)
  before(async () => {
    const folders = await tinySpecialists(CASES.map(({ model }) => model))
    const converted = await convertSpecialists(folders)
    const found = await probeSpecialists(
      CASES.map(({ probe }, i) => ({ ...probe, folder: folders[i] ?? '' })),
    )
    for (const [i, one] of CASES.entries())
      made.set(one, {
        folder: folders[i] ?? '',
        converted: converted[i] ?? '',
        expected: found[i] ?? [],
      })
  })

  for (const one of CASES) {
    it(`computes the same numbers as transformers: ${one.what}`, async () => {
      const { folder, converted, expected } = made.get(one) ?? assert.fail()
      await using server = await startSpecialist(folder, converted)

      await one.check(server, expected)
    })
  }
})
