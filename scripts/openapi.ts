import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { FAMILIES } from '../api/app.ts'
import { toOpenApi } from '../api/http/openapi/openapi.ts'

const CHECKED_IN = new URL('../docs/openapi/hearth.json', import.meta.url)

const { values } = parseArgs({
  options: {
    feature: { type: 'string', multiple: true, default: [] },
    write: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
  },
})
const text = `${JSON.stringify(toOpenApi(FAMILIES, { features: values.feature }), null, 2)}\n`

if (values.write) writeFileSync(CHECKED_IN, text)
else if (!values.check) process.stdout.write(text)
else if (text !== readFileSync(CHECKED_IN, 'utf8')) {
  process.stderr.write('docs/openapi/hearth.json does not match the routes; run npm run openapi:write\n')
  process.exitCode = 1
}
