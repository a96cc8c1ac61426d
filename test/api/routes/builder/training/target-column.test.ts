import assert from 'node:assert/strict'
import { readyDataset } from '../../../../support/builders/training.ts'
import { startApi, type TestApi } from '../../../../support/servers/api.ts'

const RUNS = '/api/builder/v1/training/runs'

describe('the target column of a training run', () => {
  let api: TestApi
  let accountId: string
  let key: string

  before(async () => {
    api = await startApi()
  })
  after(() => api[Symbol.asyncDispose]())
  beforeEach(async () => {
    ;({ accountId, key } = await api.account())
  })

  const create = (body: object) =>
    api.call('POST', RUNS, {
      key,
      body: { job_name: 'prices', model_config_id: 'tabular-regression', ...body },
    })

  it('is shown when none is given', async () => {
    const number = (name: string) => ({ name, type: 'number' })
    const target = async (
      columns: { name: string; type: string }[],
      model_config_id?: string,
      { format = 'csv', ...hyperparameters }: { format?: 'csv' | 'jsonl'; time_column?: string } = {},
    ) => {
      const table = await readyDataset(api, accountId, { columns, format })
      const { body } = await create({
        dataset_id: table,
        ...(model_config_id && { model_config_id }),
        hyperparameters,
      })
      const read = await api.call('GET', `${RUNS}/${body.job_id}`, { key })
      await api.call('POST', `${RUNS}/${body.job_id}/cancel`, { key })
      return read.body.hyperparameters.target_column
    }

    assert.equal(await target([number('a'), number('target'), number('b')]), 'target')
    assert.equal(await target([number('a'), number('b')]), 'b')
    const text = { name: 'b', type: 'string' }
    const series = 'time-series-forecast'
    assert.equal(await target([number('a'), text], series), 'a')
    assert.equal(await target([text, { name: 'a', type: 'integer' }], series), 'a')
    assert.equal(await target([number('a'), number('t')], series, { time_column: 't' }), 'a')
    // The trainer chooses: JSON strings may be numbers, and columns may be row counters or parts of dates.
    assert.equal(await target([number('a'), text], series, { format: 'jsonl' }), '')
    assert.equal(await target([number('a'), { name: 'id', type: 'integer' }], series), '')
    assert.equal(await target([number('a'), number('month')], series), '')
  })

  it('may be a text column for a regression on JSON, where strings may contain numbers', async () => {
    const columns = [
      { name: 'price', type: 'string' },
      { name: 'size', type: 'number' },
      { name: 'parts', type: 'list' },
    ]
    const statuses = async (format: 'csv' | 'jsonl') => {
      const dataset_id = await readyDataset(api, accountId, { columns, format })
      const named = ['price', 'parts'].map(async (target_column) => {
        const { status } = await create({ dataset_id, hyperparameters: { target_column } })
        return status
      })
      return Promise.all(named)
    }

    assert.deepEqual(await statuses('jsonl'), [202, 422])
    assert.deepEqual(await statuses('csv'), [422, 422])
  })

  it('is rejected when it is of the wrong kind for the model, with the suitable columns', async () => {
    const dataset_of_texts = await readyDataset(api, accountId, {
      columns: [
        { name: 'size', type: 'integer' },
        { name: 'parts', type: 'list' },
        { name: 'city', type: 'string' },
      ],
    })
    const refused = async (model_config_id: string, hyperparameters: object) => {
      const answer = await create({ dataset_id: dataset_of_texts, model_config_id, hyperparameters })
      return [answer.status, answer.body.error?.message] as const
    }
    const [named, byDefault, classes, fine] = [
      await refused('tabular-regression', { target: 'city' }),
      await refused('tabular-regression', {}),
      await refused('tabular-classification', { target_column: 'parts' }),
      await refused('tabular-classification', {}),
    ]

    assert.deepEqual([named[0], byDefault[0], classes[0], fine[0]], [422, 422, 422, 202])
    assert.match(
      named[1],
      /^hyperparameters\.target: the column city is of type string, but .* numbers; columns that it can predict: size; write numbers as 1234\.5, without thousands separators or units$/,
    )
    assert.match(byDefault[1], /^hyperparameters\.target_column: .*the request names no target_column/)
    assert.match(classes[1], /the column parts is of type list.*: size, city$/)
  })
})
