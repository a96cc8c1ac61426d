import pg from 'pg'

/** Shown in `pg_stat_activity`, where `hearth upgrade --check` looks for running backups. */
export const BACKUP_APPLICATION = 'hearth backup'
export const RESTORE_APPLICATION = 'hearth restore'

/** An error whose message says what an operator can do about it. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

/** The text of values in COPY depends on these settings, so a backup must not inherit them from a role or a database. */
const SETTINGS = `
  set client_encoding = 'UTF8'; set datestyle = 'ISO, YMD'; set intervalstyle = 'iso_8601'; set timezone = 'UTC';
  set extra_float_digits = 1; set bytea_output = 'hex'; set statement_timeout = 0; set lock_timeout = 0;
  set idle_in_transaction_session_timeout = 0`

/** Opens the single connection of a backup or a restore, without limits on the duration of its statements. */
export async function connectForCopy(url: string, application: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: application,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
  })
  // The statement that is running reports a broken connection.
  client.on('error', () => {})
  await client.connect()
  await client.query(SETTINGS)
  return client
}

export const quoteName = (name: string): string => pg.escapeIdentifier(name)
