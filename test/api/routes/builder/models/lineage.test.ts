import assert from 'node:assert/strict'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'
import { startHub, type TestHub } from '../../../../support/servers/hub-server.ts'
import {
  type Caller,
  type LineageNode,
  expectedLineage,
  isLineageModel,
  LineageWorld,
  type LineageModel,
  refOf,
  shownLineage,
} from '../../../../support/servers/worlds/lineage-world.ts'

const LLM = 'llm-qlora-finetune'
const CHAINS = 4
const STEPS = 14

/** A generator that returns the same numbers for the same seed. */
function randomFrom(seed: number) {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return {
    chance: (share: number) => next() < share,
    pick: <T>(items: readonly T[]): T | undefined => items[Math.floor(next() * items.length)],
  }
}

describe('lineage is correct (4.4)', function () {
  this.timeout(240_000)
  let hub: TestHub
  let api: TestApi
  let world: LineageWorld
  let own: Caller
  let stranger: Caller

  before(async () => {
    hub = await startHub()
    api = await startApi({ env: { HEARTH_HUB_ENDPOINT: hub.url } })
    world = new LineageWorld(api, hub)
  })
  after(async () => {
    await api[Symbol.asyncDispose]()
    await hub[Symbol.asyncDispose]()
  })
  beforeEach(async () => {
    ;[own, stranger] = [await api.account(), await api.account()]
  })

  const check = async (made: LineageModel) =>
    assert.deepEqual(shownLineage(await world.lineageOf(made)), expectedLineage(made))
  const text = (owner = own) => world.dataset(owner, 'text', 'public')
  let seed = 0
  const tune = async (owner: Caller, base: LineageModel | LineageNode, more: object = {}) => {
    const isRepo = !isLineageModel(base) && base.id.startsWith('hub_repo:')
    return world.run(owner, {
      dataset: await text(owner),
      base,
      body: {
        model_config_id: LLM,
        hyperparameters: { seed: ++seed, ...(isRepo && { base_model: base.label }) },
        ...(!isRepo && { base: refOf(base) }),
        ...more,
      },
    })
  }
  const logsOf = async ({ owner, jobId }: LineageModel): Promise<string[]> =>
    (await world.get(owner, `/training/runs/${jobId}/logs`)).logs.map(
      ({ message }: { message: string }) => message,
    )
  const publish = async ({ versionId, owner }: LineageModel) => {
    const { model_id } = await world.post(owner, '/models', { name: versionId, version_id: versionId })
    const path = `/api/builder/v1/models/${model_id}/versions/${versionId}`
    const shared = await api.call('PATCH', path, { key: owner.key, body: { visibility: 'public' } })
    assert.equal(shared.status, 200, shared.text)
  }

  it('for an hf base that is ignored in favor of base_model, with a log line', async () => {
    const [a, b] = [world.advance('org-a/model'), world.advance('org-b/model')]

    const made = await tune(own, a, { base: { type: 'hf', repo_id: b.label } })

    await check(made)
    assert.ok(
      (await logsOf(made)).some((line) => /^base org-b\/model is ignored: .* org-a\/model/.test(line)),
    )
    const { base, hyperparameters } = await world.get(own, `/training/runs/${made.jobId}`)
    assert.deepEqual(base, refOf(a))
    assert.equal(hyperparameters.base_model, 'org-a/model')
  })

  it('for a retrain on a merge, which appears once', async () => {
    const [one, two] = [await tune(own, world.advance('m/one')), await tune(own, world.advance('m/two'))]
    const parts = [one, two]
    const merged = await world.merge(own, {
      parts,
      base: null,
      body: { method: 'slerp', sources: parts.map((part) => refOf(part)) },
    })

    await check(await tune(own, merged, { base: refOf(merged, 'job') }))
  })

  it("for a chain of retrains, with each run's name, even if it appears only as a parent", async () => {
    const dataset = await world.dataset(own, 'table', 'private')
    const first = await world.run(own, { dataset, base: null, body: {} })
    const second = await world.run(own, { dataset, base: first, body: { base: refOf(first, 'job') } })
    const apart = await world.run(own, {
      dataset,
      base: null,
      parent: second,
      body: { parent_job_id: second.jobId },
    })

    await check(second)
    await check(apart)
  })

  it('for the commit that a repository was fetched at, whatever is pushed later', async () => {
    const then = world.advance('acme/moving')
    const made = await tune(own, then)
    const later = await world.import(own, world.advance('acme/moving'))

    await check(made)
    await check(await tune(own, later, { base: undefined, hyperparameters: { base_model: 'acme/moving' } }))
  })

  it("for another account's public dataset, and without its name once it is private", async () => {
    const dataset = await world.dataset(stranger, 'table', 'public')
    const made = await world.run(own, { dataset, base: null, body: {} })
    await check(made)

    const id = dataset.id.split(':')[1] ?? ''
    await api.database.db.updateTable('dataset').set({ visibility: 'private' }).where('id', '=', id).execute()
    const shown = shownLineage(await world.lineageOf(made))
    assert.deepEqual(
      shown.nodes.find((node) => node.id === dataset.id),
      { id: dataset.id, label: 'a dataset of another account' },
    )
  })

  it('for the columns that a run left out, which other accounts do not see', async () => {
    const dataset = await world.dataset(stranger, 'table', 'public')
    const { db } = api.database
    const left_out_columns = [{ column: 'id', reason: 'it has no values' }]
    const leaveOut = ({ jobId }: LineageModel) =>
      db
        .updateTable('training_run')
        .set({ metrics: JSON.stringify({ mae: 1, left_out_columns }) })
        .where('id', '=', jobId ?? '')
        .execute()
    const base = await world.run(stranger, { dataset, base: null, body: {} })
    await leaveOut(base)
    await publish(base)
    const made = await world.run(own, { dataset, base, body: { base: refOf(base) } })
    await leaveOut(made)

    const { nodes } = await world.lineageOf(made)

    const leftOutOf = ({ versionId }: LineageModel) =>
      nodes.find(({ id }) => id === `version:${versionId}`)?.details.left_out_columns
    assert.deepEqual(leftOutOf(made), left_out_columns)
    assert.equal(leftOutOf(base), undefined)
  })

  it('for a merge of stored models and hub repositories', async () => {
    const parts = [await world.store(own), world.advance('acme/fetched'), await world.store(own)]
    const merged = await world.merge(own, {
      parts,
      base: parts[0] ?? null,
      body: {
        method: 'ties',
        base: refOf(parts[0] as LineageNode),
        sources: parts.slice(1).map((part) => refOf(part)),
      },
    })

    await check(merged)
    await check(await tune(own, await world.store(own)))
  })

  it('for a table model with an hf base, which it cannot use', async () => {
    const dataset = await world.dataset(own, 'table', 'private')
    const body = { base: { type: 'hf', repo_id: 'org-c/model' } }

    const made = await world.run(own, { dataset, base: null, body })

    await check(made)
    assert.ok(
      (await logsOf(made)).some((line) => line.startsWith('base org-c/model is ignored: tabular-regression')),
    )
  })

  it('for a base that is passed to slerp but not used', async () => {
    const [base, ...parts] = [await world.store(own), await world.store(own), world.advance('acme/slerped')]
    const sources = parts.map((part) => refOf(part))
    await check(
      await world.merge(own, { parts, base: null, body: { method: 'slerp', base: refOf(base), sources } }),
    )
  })

  const first = Number(process.env['HEARTH_TEST_SEED'] ?? Date.now() % 1_000_000)
  for (let i = 0; i < CHAINS; i++) {
    it(`for a random chain, seed ${first + i} (HEARTH_TEST_SEED=${first + i} repeats it)`, () =>
      randomChain(first + i))
  }

  async function randomChain(number: number): Promise<void> {
    const { chance, pick } = randomFrom(number)
    const made: LineageModel[] = []
    const heads = new Map<string, LineageNode>()
    const imports = new Map<string, LineageModel>()
    const repoIds = ['x/alpha', 'x/beta', 'x/gamma'].map((name) => `${name}-${number}`)
    const advance = (id = repoIds[0] ?? '') => {
      const head = world.advance(id)
      heads.set(id, head)
      return head
    }
    for (const id of repoIds) advance(id)
    const foreign = await tune(stranger, await world.import(stranger, advance()))
    await publish(foreign)
    const folders = () => [...made, foreign].filter(({ isFolder }) => isFolder)
    const tables = [
      await world.dataset(own, 'table', 'private'),
      await world.dataset(stranger, 'table', 'public'),
    ]

    const steps: Record<string, () => Promise<LineageModel | undefined>> = {
      async import() {
        const id = pick(repoIds) ?? ''
        const imported = imports.get(id)
        // The first import is returned again, however far the repository has moved since.
        const one = imported ?? (await world.import(own, heads.get(id) ?? advance(id)))
        imports.set(id, one)
        return one
      },
      async commit() {
        advance(pick(repoIds))
        return undefined
      },
      async table() {
        const dataset = pick(tables)
        return dataset && world.run(own, { dataset, base: null, body: {} })
      },
      async retrainTable() {
        const base = pick(made.filter(({ isFolder, jobId }) => !isFolder && jobId))
        const dataset = pick(tables)
        if (!base || !dataset) return undefined
        return world.run(own, { dataset, base, body: { base: refOf(base, chance(0.5) ? 'job' : 'version') } })
      },
      async tuneRepo() {
        const id = pick(repoIds) ?? ''
        const base = imports.get(id) ?? heads.get(id)
        if (!base) return undefined
        const ignored = chance(0.5) && { base: { type: 'hf', repo_id: pick(repoIds) } }
        return world.run(own, {
          dataset: await text(chance(0.5) ? own : stranger),
          base,
          body: { model_config_id: LLM, hyperparameters: { base_model: id, seed: ++seed }, ...ignored },
        })
      },
      async retrain() {
        const base = pick(folders())
        return base && tune(own, base, { base: refOf(base, chance(0.5) ? 'job' : 'version') })
      },
      tuneStored: async () => tune(own, await world.store(own)),
      async blend() {
        const parts = [pick(folders()), pick(folders()), chance(0.5) ? await world.store(own) : advance()]
        const present = parts.filter((part) => part !== undefined)
        const [base, ...sources] = present
        if (!base || present.length < 3) return undefined
        const method = chance(0.5) ? 'ties' : 'slerp'
        const refs = sources.map((part) => refOf(part))
        return world.merge(own, {
          parts: method === 'slerp' ? sources : present,
          base: method === 'slerp' ? null : base,
          body: { method, base: refOf(base), sources: refs },
        })
      },
      async fold() {
        const adapter = pick(made.filter(({ hasAdapter }) => hasAdapter))
        if (!adapter?.base) return undefined
        // A later import of the same commit is the same import.
        const same = [...imports.values()].find(({ nodes }) => nodes.some((node) => node === adapter.base))
        const base = same ?? adapter.base
        return world.merge(own, { parts: [base, adapter], base, body: { adapters: [refOf(adapter)] } })
      },
    }
    for (let i = 0; i < STEPS; i++) {
      const step = pick(Object.keys(steps)) ?? 'import'
      const one = await steps[step]?.()
      if (one && !made.includes(one)) made.push(one)
    }
    for (const one of made) await check(one)
  }
})
