// `node evidence.mjs SOURCE TARGET texts.jsonl`: fits a map from one encoder's vectors to another's on the first texts
// of a file. It measures on 200 others how many of the ten nearest neighbors stay the same, and prints the body for
// `POST .../evidence`.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

const [source, target, file] = process.argv.slice(2)
const TESTED = 200
const RESAMPLES = 1_000
const PERMUTATIONS = 20
const { base_url, api_key, account_id } = JSON.parse(
  readFileSync(`${process.env.HEARTH_DATA_DIR ?? '.hearth'}/ready.json`, 'utf8'),
)
const headers = { 'x-api-key': api_key, 'x-account-id': account_id, 'content-type': 'application/json' }

async function ask(path, options) {
  const answer = await fetch(base_url + path, { headers, ...options })
  if (!answer.ok) throw new Error(await answer.text())
  return answer.json()
}

async function vectorsOf(model, input) {
  const { data } = await ask('/v1/embeddings', { method: 'POST', body: JSON.stringify({ model, input }) })
  return data.map(({ embedding }) => embedding)
}

async function outputOf(endpoint) {
  const { produces } = await ask(`/api/v1/cohorts/capabilities?endpoint_id=${endpoint}`)
  return produces.find(({ name }) => name === 'output').space_id
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0)
const columns = (rows) => rows[0].map((_, i) => rows.map((row) => row[i]))
function unit(vector) {
  const length = Math.sqrt(dot(vector, vector))
  return vector.map((value) => value / length)
}
const withOne = (rows) => rows.map((row) => [...row, 1])

/** Ridge regression: returns a row for each output, with its bias as the last number. */
function fit(xs, ys) {
  const [inputs, outputs] = [columns(withOne(xs)), columns(ys)]
  const width = inputs.length
  const system = inputs.map((a, i) => [
    ...inputs.map((b, j) => dot(a, b) + (i === j ? 1e-4 : 0)),
    ...outputs.map((b) => dot(a, b)),
  ])
  for (let i = 0; i < width; i++) {
    system[i] = system[i].map((value, _, { [i]: pivot }) => value / pivot)
    for (let j = 0; j < width; j++)
      if (j !== i) system[j] = system[j].map((value, k) => value - system[j][i] * system[i][k])
  }
  return outputs.map((_, k) => system.map((row) => row[width + k]))
}

const mapped = (map, xs) => withOne(xs).map((x) => map.map((row) => dot(row, x)))

/** Returns the indexes of the ten unit vectors that are nearest to a vector, without its own index. */
function nearest(vector, at, all) {
  const scores = all.map((one, i) => ({ i, score: i === at ? -Infinity : dot(vector, one) }))
  return scores.toSorted((a, b) => b.score - a.score).slice(0, 10).map(({ i }) => i)
}

/** For each test vector, returns the share of the native vector's neighbors that the mapped one has too. */
function overlaps(map, xs, natives, neighbours) {
  return mapped(map, xs).map((vector, at) => {
    const found = new Set(nearest(vector, at, natives))
    return neighbours[at].filter((i) => found.has(i)).length / 10
  })
}

/** Pseudorandom numbers from 0 to 1, the same on every run (mulberry32). */
let state = 1
function chance() {
  state = (state + 0x6d2b79f5) | 0
  let t = Math.imul(state ^ (state >>> 15), 1 | state)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}
const shuffled = (list) => list.map((value) => [chance(), value]).toSorted(([a], [b]) => a - b).map(([, value]) => value)
const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length
const quantile = (list, share) => list.toSorted((a, b) => a - b)[Math.floor(share * (list.length - 1))]

const texts = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line).text)
const [xs, ys] = [await vectorsOf(source, texts), await vectorsOf(target, texts)]
const order = shuffled(texts.map((_, i) => i))
const [test, train] = [order.slice(0, TESTED), order.slice(TESTED)]
const of = (rows, places) => places.map((i) => rows[i])
const [testXs, testYs] = [of(xs, test), of(ys, test).map(unit)]
const neighbours = testYs.map((vector, at) => nearest(vector, at, testYs))

const map = fit(of(xs, train), of(ys, train))
const seen = overlaps(map, testXs, testYs, neighbours)
const estimate = mean(seen)
const resampled = Array.from({ length: RESAMPLES }, () => mean(seen.map(() => seen[Math.floor(chance() * seen.length)])))
const [low, high] = [quantile(resampled, 0.025), quantile(resampled, 0.975)]
const broken = Array.from({ length: PERMUTATIONS }, () =>
  mean(overlaps(fit(of(xs, train), of(ys, shuffled(train))), testXs, testYs, neighbours)),
)

/** Builds a safetensors file: the length of its header, the header, and the numbers as 32-bit floats. */
function safetensors(weight, bias) {
  const bytes = (numbers) => Buffer.from(new Float32Array(numbers).buffer)
  const [w, b] = [bytes(weight.flat()), bytes(bias)]
  const header = Buffer.from(
    JSON.stringify({
      weight: { dtype: 'F32', shape: [weight.length, weight[0].length], data_offsets: [0, w.length] },
      bias: { dtype: 'F32', shape: [bias.length], data_offsets: [w.length, w.length + b.length] },
    }),
  )
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([length, header, w, b])
}

const adapter = safetensors(map.map((row) => row.slice(0, -1)), map.map((row) => row.at(-1)))
const digest = (content) => createHash('sha256').update(content).digest('hex')
console.log(
  JSON.stringify({
    source_space_id: await outputOf(source),
    target_space_id: await outputOf(target),
    relation: 'affine',
    adapter: {
      uri: `data:application/octet-stream;base64,${adapter.toString('base64')}`,
      sha256: digest(adapter),
      size_bytes: adapter.length,
      format: 'safetensors',
      input_dimensions: xs[0].length,
      output_dimensions: ys[0].length,
    },
    metric: 'retrieval_overlap',
    estimate,
    score: low,
    interval: { low, high, level: 0.95, method: 'percentile', resamples: RESAMPLES },
    sample_count: TESTED,
    fit_count: train.length,
    null_model: {
      upper_95: quantile(broken, 0.95),
      p_value: (1 + broken.filter((value) => value >= estimate).length) / (PERMUTATIONS + 1),
      permutations: PERMUTATIONS,
    },
    dataset_digest: digest(readFileSync(file)),
    seed: 1,
    evaluator: { name: 'evidence.mjs', version: '1' },
    valid_until: new Date(Date.now() + 30 * 86_400_000).toISOString(),
  }),
)
