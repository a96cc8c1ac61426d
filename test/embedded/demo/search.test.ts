import assert from 'node:assert/strict'
import { registerTools } from '../../../api/tools/register.ts'
import { hearth } from '../../../client/index.ts'
import { describeRows } from '../../../embedded/demo/search.ts'
import { queryTable } from '../../../embedded/demo/steps.ts'
import { learnWords, writeWordModel } from '../../../embedded/demo/word-vectors.ts'
import { requireSpecialist } from '../../support/builders/models/tiny-specialist.ts'
import { temporaryFolder } from '../../support/builders/temporary-folder.ts'
import { startApi } from '../../support/servers/api.ts'
import { startSpecialist } from '../../support/servers/nodes/specialist.ts'

const CSV = [
  'age,sex,bmi,bp,s3,s5,s6,target',
  '59,2,32.1,101,38,4.9,87,151',
  '48,1,21.6,87,70,3.9,69,75',
  '72,2,30.5,93,41,4.7,85,341',
].join('\n')
const TEXTS = ['old obese slow', 'old obese slow', 'young lean fast', 'young lean fast', 'young obese slow']

describe('demo search', function () {
  this.timeout(120_000)
  before(requireSpecialist)

  it('describes rows in words', () => {
    assert.deepEqual(describeRows(CSV), [
      {
        text: 'fifties obese high-pressure low-hdl high-triglycerides high-sugar',
        progression: 151,
        outcome: 'moderate-progression',
      },
      {
        text: 'forties lean low-pressure high-hdl low-triglycerides low-sugar',
        progression: 75,
        outcome: 'slow-progression',
      },
      {
        text: 'seventies obese medium-pressure medium-hdl medium-triglycerides medium-sugar',
        progression: 341,
        outcome: 'fast-progression',
      },
    ])
  })

  it('finds text by co-occurring words, with a model that the real server loads', async () => {
    using folder = temporaryFolder()
    await writeWordModel(folder.path, learnWords(TEXTS))
    await using server = await startSpecialist(folder.path)

    const { body } = await server.ask({ text: ['slow', 'old obese', 'young lean', 'Slow', 'never seen'] })

    const [slow, old, young, again, unseen] = body.embeddings as number[][]
    const cosine = (a: number[] = [], b: number[] = []) =>
      a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0)
    assert.ok(cosine(slow, old) > cosine(slow, young) + 0.3, `${cosine(slow, old)} ${cosine(slow, young)}`)
    assert.ok(Math.abs(cosine(slow, again) - 1) < 1e-6)
    assert.ok(unseen?.every((value) => value === 0))
  })

  it('reports why no node runs tools', async () => {
    await using api = await startApi()
    await registerTools(api.services)
    const { key } = await api.account()

    const answer = await queryTable(
      hearth({ baseUrl: api.baseUrl, apiKey: key }),
      Buffer.from(CSV),
      'select 1',
    )

    assert.ok('refused' in answer, JSON.stringify(answer))
    assert.match(answer.refused, /tool/)
  })
})
