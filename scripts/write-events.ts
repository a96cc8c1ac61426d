import { writeFile } from 'node:fs/promises'
import { eventsDocument } from './events-document.ts'

await writeFile(new URL('../docs/events.md', import.meta.url), eventsDocument())
