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

/** Returns numbers in [0, 1) from a linear congruential generator. */
function generator(seed: number): () => number {
  let state = seed
  return () => (state = (state * 1_103_515_245 + 12_345) % 2 ** 31) / 2 ** 31
}
