import { randomBytes, randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Database } from '../../../../db/tables.ts'

interface Column {
  table: string
  name: string
  type: string
}

/** Text that COPY must escape, and text in which nothing may be changed. */
const TEXTS = [
  'tab\there',
  'back\\slash \\N \\.',
  'line\nbreak\r',
  '“ünï” 🦔',
  '',
  ' ',
  'it\'s {"a",b}',
  'NULL',
]

/** Returns a value of a PostgreSQL type for the nth row, different for each n. */
function valueOf(type: string, n: number): unknown {
  const text = `${TEXTS[n % TEXTS.length]}${n < TEXTS.length ? '' : n}`
  switch (type) {
    case 'uuid':
      return randomUUID()
    case 'text':
      return `${text}${randomUUID()}`
    case 'bytea':
      return Buffer.concat([Buffer.of(0, 9, 10, 92, 255), randomBytes(20)])
    case 'json':
    case 'jsonb':
      return JSON.stringify({ text, nested: [{ n, none: null }], large: 2 ** 53 - 1 })
    case 'boolean':
      return n % 2 === 0
    case 'smallint':
    case 'integer':
      return n + 1
    case 'bigint':
      return String(2n ** 60n + BigInt(n))
    case 'double precision':
      return [0.1 + 0.2, Number.NaN, Number.NEGATIVE_INFINITY, 5e-324][n % 4]
    case 'real':
      return [0.1, Number.NaN, 1e-40, -3.4e38][n % 4]
    case 'numeric':
      return `${n}.${'1234567890'.repeat(3)}`
    case 'timestamp with time zone':
      return `2026-03-29 01:5${n % 10}:59.99999${n % 10}+01`
    case 'timestamp with time zone[]':
      return [`2026-03-29 01:59:59.000001+01`, null]
    case 'date':
      return `2026-02-${10 + n}`
    case 'text[]':
      return [...TEXTS, null]
    case 'uuid[]':
      return [randomUUID(), null]
    case 'bytea[]':
      return [randomBytes(3), null]
    case 'integer[]':
    case 'bigint[]':
    case 'real[]':
    case 'double precision[]':
      return [n, null, -n]
    default:
      throw new Error(`a column has the type ${type}: add a value for it`)
  }
}

/**
 * Removes the constraints that synthetic rows would violate. A target needs this too, because a restore checks
 * references.
 */
export async function dropConstraints(db: Kysely<Database>): Promise<void> {
  const { rows } = await sql<{ statement: string }>`
    select format('alter table %s drop constraint %I cascade', conrelid::regclass, conname) as statement
    from pg_constraint where contype in ('f', 'c') and connamespace = current_schema()::regnamespace
      and conparentid = 0 and conrelid <> 0`.execute(db)
  await sql.raw(rows.map(({ statement }) => statement).join(';')).execute(db)
}

/** Inserts rows with values of every type into every table; the last row has nulls where they are allowed. */
export async function fillTables(db: Kysely<Database>, rowsPerTable: number): Promise<string[]> {
  const { rows: columns } = await sql<Column & { nullable: boolean; identity: boolean }>`
    select c.relname as table, a.attname as name, format_type(a.atttypid, null) as type,
      not a.attnotnull as nullable, a.attidentity <> '' as identity
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' and c.relname not like 'kysely_%'
    order by c.relname, a.attnum`.execute(db)
  const tables = Map.groupBy(columns, ({ table }) => table)
  await db.connection().execute(async (connection) => {
    // Triggers would write rows of their own.
    await sql`set session_replication_role = replica`.execute(connection)
    for (const [table, all] of tables) {
      const given = all.filter(({ identity }) => !identity)
      const rows = Array.from({ length: rowsPerTable }, (_row, n) => {
        const isLast = n === rowsPerTable - 1
        const cells = given.map(
          ({ type, nullable }) => sql`${isLast && nullable ? null : valueOf(type, n)}::${sql.raw(type)}`,
        )
        return sql`(${sql.join(cells)})`
      })
      await sql`insert into ${sql.table(table)} (${sql.join(given.map(({ name }) => sql.ref(name)))})
        values ${sql.join(rows)} on conflict do nothing`.execute(connection)
    }
    await sql`reset session_replication_role`.execute(connection)
  })
  return [...tables.keys()]
}

/** Returns a digest of the rows of each table, with all columns, including generated ones. */
export async function digestsOf(
  db: Kysely<Database>,
  tables: readonly string[],
): Promise<Record<string, string>> {
  const each = tables.map(
    (table) => sql`select ${table}::text as table,
      count(*) || ' ' || coalesce(md5(string_agg(t::text, chr(10) order by t::text)), '') as digest
      from ${sql.table(table)} t`,
  )
  const { rows } = await sql<{ table: string; digest: string }>`${sql.join(each, sql` union all `)}`.execute(
    db,
  )
  return Object.fromEntries(rows.map(({ table, digest }) => [table, digest]))
}
