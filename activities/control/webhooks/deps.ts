import type { Kysely } from 'kysely'
import type { Database } from '../../../db/tables.ts'
import type { Config } from '../../../platform/config.ts'
import type { PublicSender } from '../../../platform/egress/public-sender.ts'
import type { Logger } from '../../../platform/log.ts'
import type { SecretBox } from '../../../platform/secret-box.ts'

/** The dependencies of the webhook activities. */
export interface WebhookDeps {
  readonly db: Kysely<Database>
  readonly config: Config
  readonly sender: PublicSender
  readonly secretBox: SecretBox
  readonly log: Logger
  readonly now: () => Date
}
