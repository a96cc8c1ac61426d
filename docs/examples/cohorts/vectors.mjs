// `node vectors.mjs ENCODER texts.jsonl`: prints a table with a row for each text in the file: the encoder's vector as
// columns x0, x1 and so on, and the text's label.
import { readFileSync } from 'node:fs'

const [encoder, file] = process.argv.slice(2)
const folder = process.env.HEARTH_DATA_DIR ?? '.hearth'
const { base_url, api_key } = JSON.parse(readFileSync(`${folder}/ready.json`, 'utf8'))
const rows = readFileSync(file, 'utf8')
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line))

console.error(`sending ${rows.length} texts to ${encoder}, which is loaded first if it is cold`)
const answer = await fetch(`${base_url}/v1/embeddings`, {
  method: 'POST',
  headers: { authorization: `Bearer ${api_key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: encoder, input: rows.map(({ text }) => text) }),
})
if (!answer.ok) throw new Error(await answer.text())
const { data } = await answer.json()
for (const { index, embedding } of data) {
  const columns = Object.fromEntries(embedding.map((value, i) => [`x${i}`, value]))
  console.log(JSON.stringify({ ...columns, label: rows[index].label }))
}
