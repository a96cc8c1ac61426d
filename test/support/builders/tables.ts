/** Returns a CSV with `rows` rows whose column `target` depends on the others; deterministic. */
export function regressionTable(rows: number, seed = 1): Buffer {
  const next = generator(seed)
  const lines = ['age,income,region,target']
  for (let i = 0; i < rows; i++) {
    const age = 18 + Math.floor(next() * 60)
    const income = Math.round(next() * 90_000)
    const region = ['north', 'south', 'east', 'west'][Math.floor(next() * 4)]
    const target = age * 2 + income / 1000 + (region === 'north' ? 25 : 0) + next()
    lines.push(`${age},${income},${region},${target.toFixed(3)}`)
  }
  return Buffer.from(`${lines.join('\n')}\n`)
}

/**
 * Returns a CSV with many columns, of which `target` depends on the first two. Boosting learns slowly from it, but
 * predicts as fast as from a narrow table, so a run with many epochs resumes at once.
 */
export function wideTable(rows: number, columns: number): Buffer {
  const next = generator(1)
  const lines = [[...Array.from({ length: columns }, (_, i) => `c${i}`), 'target'].join(',')]
  for (let i = 0; i < rows; i++) {
    const values = Array.from({ length: columns }, () => Math.round(next() * 1000))
    lines.push([...values, (2 * (values[0] ?? 0) + (values[1] ?? 0) + next()).toFixed(3)].join(','))
  }
  return Buffer.from(`${lines.join('\n')}\n`)
}

/** Returns numbers in [0, 1) from a linear congruential generator. */
function generator(seed: number): () => number {
  let state = seed
  return () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31
}
