import { writeFile } from 'node:fs/promises'
import { configurationDocument } from '../platform/config/document.ts'

await writeFile(new URL('../docs/configuration.md', import.meta.url), configurationDocument())
