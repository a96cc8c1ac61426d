import { connectOnce, openDatabase } from '../db/database.ts'
import { migrate } from '../db/migrate.ts'
import { explain } from '../embedded/options.ts'
import { readConfig, required } from '../platform/config.ts'
import { unusable } from '../platform/reason.ts'

/** `npm run migrate`: migrates the database at DATABASE_URL to the newest schema. */
async function main(): Promise<void> {
  await using db = openDatabase(required(readConfig(), 'DATABASE_URL'), { max: 1 })
  await connectOnce(db).catch((err: unknown) => {
    throw unusable('DATABASE_URL', err)
  })
  const applied = await migrate(db)
  console.log(applied.length > 0 ? `applied ${applied.join(', ')}` : 'the schema is up to date')
}

await main().catch((err: unknown) => {
  process.exitCode = explain(err)
})
