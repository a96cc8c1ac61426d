/** A failure that its sentence explains: printed without a stack. */
export class CliError extends Error {
  override readonly name = 'CliError'
}
