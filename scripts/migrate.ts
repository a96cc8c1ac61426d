import { openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import { readConfig, required } from '../platform/config.ts'

/** `npm run migrate`: brings the schema of DATABASE_URL to the newest version. */
await using db = openDatabase(required(readConfig(), 'DATABASE_URL'), { max: 1 })
const applied = await migrate(db)
console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'the schema is up to date')
