import { readFile, writeFile } from 'node:fs/promises'
import { metricsDocument } from './metrics-document.ts'

const page = new URL('../docs/monitoring.md', import.meta.url)
await writeFile(page, metricsDocument(await readFile(page, 'utf8')))
