import { writeFile } from 'node:fs/promises'
import { configurationDocument } from '../platform/config/document.ts'
import { CHART_SCHEMA, chartSchema } from './chart/settings.ts'

await writeFile(new URL('../docs/configuration.md', import.meta.url), configurationDocument())
await writeFile(CHART_SCHEMA, chartSchema())
